"""What one model's outputs teach another's."""

from torch import Tensor
from torch.nn.functional import kl_div, log_softmax

from anydepth.data.facts import Task
from anydepth.data.table import IGNORED
from anydepth.errors import ShapeError
from anydepth.measure.evaluation import loss_of


def taught_loss(task: Task, outputs: Tensor, taught: Tensor, targets: Tensor, temperature: float = 1.0) -> Tensor:
    """Mean over examples (words that count) of T^2 KL(softmax(taught / T), softmax(outputs / T)); of numbers, the mean
    squared difference. No gradient reaches the teacher.
    """
    taught = taught.detach()
    if outputs.shape != taught.shape:
        raise ShapeError(
            f"the teacher gives {tuple(taught.shape)}, the model {tuple(outputs.shape)}; both must do the same task"
        )
    if task == "regress":
        return (outputs - taught).square().mean()
    if task == "tag":
        counted = targets != IGNORED
        if not bool(counted.any()):
            return 0 * outputs.sum()
        outputs, taught = outputs[counted], taught[counted]
    return divergence(outputs, taught, temperature)


def divergence(outputs: Tensor, taught: Tensor, temperature: float = 1.0) -> Tensor:
    """T^2 KL(softmax(taught / T), softmax(outputs / T)), the mean over all but the last axis."""
    mine, its = (log_softmax(scores.flatten(0, -2).float() / temperature, -1) for scores in (outputs, taught))
    if outputs.dtype == taught.dtype and outputs.element_size() > 4:
        mine, its = (log_softmax(scores.flatten(0, -2) / temperature, -1) for scores in (outputs, taught))
    return temperature**2 * kl_div(mine, its, reduction="batchmean", log_target=True)


def lesson(
    task: Task, outputs: Tensor, taught: Tensor, targets: Tensor, share: float, temperature: float, smoothing: float
) -> Tensor:
    """What a model learns from: `share` of the teacher, the rest from the labels."""
    loss = taught_loss(task, outputs, taught, targets, temperature) if share else 0.0
    own = loss_of(task, outputs, targets, smoothing) if share < 1 else 0.0
    return share * loss + (1 - share) * own  # pyright: ignore[reportReturnType]
