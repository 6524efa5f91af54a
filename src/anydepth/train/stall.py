"""Growing a model when its validation loss stalls, instead of at epochs set by hand."""

from anydepth.errors import ConfigError
from anydepth.runs.config import RefineSettings
from anydepth.runs.progress import Progress


class Stall:
    """Asks for a refinement when validations stop getting better; all it remembers is in the progress."""

    def __init__(self, settings: RefineSettings):
        self.settings = settings

    def note(self, progress: Progress, loss: float, total: int) -> None:
        """Take in a validation loss; if it stalls, the model grows before the next step."""
        settings = self.settings
        if settings.when != "stall" or len(progress.stalled_at) >= settings.most or progress.step >= total:
            return
        if progress.best_loss is None or loss < (1 - settings.least_gain) * progress.best_loss:
            progress.best_loss, progress.waited = loss, 0
            return
        progress.waited += 1
        if progress.waited >= settings.patience:
            progress.stalled_at.append(progress.step)
            progress.best_loss, progress.waited = None, 0


def refined_at(places: list[int], progress: Progress) -> list[int]:
    """The steps before which a model grows: those set by hand, and those that its losses asked for so far."""
    return [*places, *progress.stalled_at]


def check_stall(settings: RefineSettings, validation: int) -> None:
    """Refuse, before training, what cannot see a stall."""
    if settings.when == "stall" and not validation:
        raise ConfigError(
            "refine.when=stall looks at the validation loss, but no validation examples are held out; set "
            "data.validation, or refine.when=at with refine.at"
        )
