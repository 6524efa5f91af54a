"""What a model is made of, block by block."""

from dataclasses import dataclass

from torch import nn

from anydepth.printing import html_table, text_table
from anydepth.surgery.blocks import blocks_in
from anydepth.surgery.change import Form


@dataclass(frozen=True)
class BlockRow:
    """One block of a model."""

    name: str
    unit: str
    form: Form
    scale: float
    nfe: int


@dataclass(frozen=True)
class Summary:
    """A model's blocks and its counts; prints as a table."""

    rows: tuple[BlockRow, ...]
    parameters: int

    @property
    def nfe(self) -> int:
        """Evaluations of units in one forward pass."""
        return sum(row.nfe for row in self.rows)

    def __str__(self) -> str:
        return text_table(_HEAD, self._body(), left=4)

    def _repr_html_(self) -> str:
        return html_table(_HEAD, self._body())

    def _body(self) -> list[tuple[str, ...]]:
        inside = sum(row.form.parameters for row in self.rows)
        rest = ("(the rest)", "", "", "", "", "", f"{self.parameters - inside:,}", "")
        total = ("total", "", "", "", "", str(self.nfe), f"{self.parameters:,}", "")
        return [*map(_cells, self.rows), rest, total]


_HEAD = ("block", "unit", "weights", "solver", "scale", "NFE", "parameters", "state")


def summary(model: nn.Module) -> Summary:
    """Blocks with their weight functions, solvers, evaluations per pass and parameters.

    With an adaptive scheme, the evaluations are those of the last pass.
    """
    rows = tuple(
        BlockRow(
            name or "(model)",
            type(block.unit).__name__,
            Form.of(block),
            float(block.scale),
            block.nfe if block.steps is None else block.steps * block.scheme.stages,
        )
        for name, block in blocks_in(model).items()
    )
    return Summary(rows, sum(parameter.numel() for parameter in model.parameters()))


def _cells(row: BlockRow) -> tuple[str, ...]:
    form = row.form
    return (
        *(row.name, row.unit, form.weights, form.solver, f"{row.scale:g}", str(row.nfe)),
        *(f"{form.parameters:,}", f"{form.state:,}"),
    )
