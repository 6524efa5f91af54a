"""What a model is made of, block by block."""

from dataclasses import dataclass

from torch import nn

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
        head = ("block", "unit", "weights", "solver", "scale", "NFE", "parameters", "state")
        body = [_cells(row) for row in self.rows]
        inside = sum(row.form.parameters for row in self.rows)
        rest = ("(the rest)", "", "", "", "", "", f"{self.parameters - inside:,}", "")
        total = ("total", "", "", "", "", str(self.nfe), f"{self.parameters:,}", "")
        return _table([head, *body, rest, total])


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


def _table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [c.ljust(w) if i < 4 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
