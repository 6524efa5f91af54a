"""The path for blocks made of layers: where a step of Euler's method is a layer, it is called and nothing else.

y + 1 (layer(y) - y) is layer(y). Without the difference and the sum the result is that of the layers to the bit.
"""

from dataclasses import replace
from functools import partial

from anydepth.block.branch import Branch, Whole, is_layered
from anydepth.block.field import UnitField
from anydepth.block.passes import Outcome, Pass, Ready
from anydepth.block.paths import PATHS, UnitRefusal, stats_of
from anydepth.executor.executor import Image
from anydepth.solve.plan import Plan
from anydepth.solve.tensors import State, keep_format


@PATHS.register("layers")
def attempt(given: Pass, y: State) -> Ready | str:
    """A layer per step, if the unit is the branch of a layer and every step has the width of one."""
    if type(given.unit) is not Branch:
        return UnitRefusal("the unit is not of the form layer(x) - x")
    if given.has_time or given.plan is None:
        return "the unit takes the time, or the scheme chooses its own steps"
    if not is_layered(given.unit, given.plan):
        return "a step is not a layer: that needs scheme 'euler' with as many steps as the scale"
    return partial(_solved, given, given.unit, given.plan, y)


def _solved(given: Pass, unit: Branch, plan: Plan, y: State) -> Outcome:
    whole = Whole(unit.layer, unit.returns)
    whole.training = unit.training  # in eval mode, state need not be copied
    image = Image(whole)
    image.looked_at.add("skip")  # a layer may well add its input
    field = UnitField(replace(given, unit=whole, image=image))
    try:
        for stages in field.steps(plan):
            y = stages(0, y)
            stages.accept()
        state, counters = field.samples()
        written = [each for each in field.call.written() if not isinstance(each[0], Whole)]
    finally:
        field.close()
    return Outcome(keep_format(y), stats_of(plan), state, counters, written)
