"""A block's unit at every instant that its plan reads: modules with weights of their own."""

import torch
from torch import nn

from anydepth.block.block import ContinuousBlock
from anydepth.block.roles import private, replace
from anydepth.solve.plan import Plan


def units_of(block: ContinuousBlock, plan: Plan) -> tuple[list[int], nn.ModuleList]:
    """Which unit each evaluation calls; evaluations that read the same weights share one."""
    readings = {name: plan.reading(part.function) for name, part in block.lifted.items()}
    keys = [tuple(reading.index[i] for reading in readings.values()) for i in range(plan.evaluations)]
    distinct = list(dict.fromkeys(keys))
    with torch.no_grad():
        rows = {name: reading.rows(*block.held(name)) for name, reading in readings.items()}
        units = nn.ModuleList()
        skeleton = private(block.unit)
        for key in distinct:
            for (name, part), place in zip(block.lifted.items(), key, strict=True):
                replace(skeleton, name, part.kind.decode(rows[name][place]).clone())
            units.append(private(skeleton))
    order = {key: i for i, key in enumerate(distinct)}
    return [order[key] for key in keys], units
