"""The depth controller in simulated time: no clock, no threads, no model."""

import heapq
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anydepth.deploy.depth_controller import HOLD_SECONDS, DepthController, Rung
from anydepth.errors import ConfigError

LADDER = [
    Rung("rk4 x 8", 98.5, 8.0),
    Rung("rk4 x 4", 98.4, 4.0),
    Rung("midpoint x 4", 98.0, 2.0),
    Rung("euler", 95, 0.5),
]
FULL = 125.0
"""Requests a second that the deepest form can serve."""
TARGET = 100.0


@dataclass
class Seen:
    """What a simulation saw."""

    latencies: list = field(default_factory=list)
    forms: Counter = field(default_factory=Counter)
    refused: int = 0
    changes: list = field(default_factory=list)
    levels: list = field(default_factory=list)

    @property
    def p99(self):
        return 1000 * float(np.quantile(self.latencies, 0.99))

    @property
    def share_refused(self):
        return self.refused / (self.refused + len(self.latencies))

    @property
    def value(self):
        return sum(rung.value * self.forms[rung.name] for rung in LADDER) / self.forms.total()


def simulate(rate, seconds, slow=lambda t: 1.0, ladder=LADDER, noise=0.1, seed=0, asked=lambda n: None, told=None):
    """Arrivals at rate(t) a second, one pass at a time; the machine is slower than the ladder says by slow(t).

    `told`: the ladder of the controller, where it is another.
    """
    random, controller, seen = np.random.default_rng(seed), DepthController(told or ladder, TARGET), Seen()
    costs = {rung.name: rung for rung in ladder}
    most = max(rate(t) for t in np.linspace(0, seconds, 200))
    times = np.cumsum(random.exponential(1 / most, int(1.5 * most * seconds + 50)))
    times = [t for t in times[times < seconds] if random.uniform() < rate(t) / most]
    events = [(t, n, None) for n, t in enumerate(times)]
    heapq.heapify(events)
    is_running = False
    while events:
        now, number, batch = heapq.heappop(events)
        if batch is None:
            seen.refused += controller.arrived(now, number, form=asked(number)) is not None
        else:
            controller.finished(now, batch)
            is_running = False
            seen.latencies += [now - times[ticket] for ticket in batch.tickets]
            seen.forms[batch.form] += len(batch.tickets)
        if not is_running:
            before = controller.level
            begun = controller.next_batch(now)
            if controller.level != before:
                seen.changes.append(now)
            if begun is not None:
                is_running = True
                taken = costs[begun.form].milliseconds(begun.examples) / 1000 * slow(now)
                heapq.heappush(events, (now + taken * float(random.lognormal(0, noise)), len(times) + number, begun))
        seen.levels.append((now, controller.level))
    assert controller.waiting == 0
    assert len(seen.latencies) + seen.refused == len(times)
    return seen


def steady(times):
    return lambda t: times * FULL


def test_light_load_is_answered_at_full_depth():
    seen = simulate(steady(0.5), 20)
    assert seen.p99 < TARGET
    assert seen.refused == 0
    assert seen.forms["rk4 x 8"] > 0.98 * seen.forms.total()


@pytest.mark.parametrize("times", [1, 2, 3])
def test_more_load_than_full_depth_can_serve_is_answered_in_time_by_shallower_forms(times):
    seen = simulate(steady(times), 20)
    assert seen.p99 < TARGET
    assert seen.refused == 0
    assert seen.forms["euler"] < 0.05 * seen.forms.total()
    assert seen.value > 97.9


def test_the_same_load_at_fixed_depth_is_refused_or_late():
    seen = simulate(steady(2), 20, ladder=LADDER[:1])
    assert seen.share_refused > 0.4
    assert seen.p99 < TARGET


@pytest.mark.parametrize("times", [0.5, 1, 2, 4])
def test_a_steady_load_does_not_make_it_flap(times):
    seen = simulate(steady(times), 60)
    assert len([t for t in seen.changes if t > 10]) <= 3
    assert max(seen.forms.values()) > 0.85 * seen.forms.total()


SLOW = [Rung(rung.name, rung.value, 4 * rung.example_ms) for rung in LADDER]
"""A pass of the deepest form takes a third of the target, so that three requests that come at once are too many."""


@pytest.mark.parametrize("times", [0.3, 0.5, 0.6])
def test_clumps_do_not_cost_the_depth_of_a_slow_model(times):
    seen = simulate(lambda t: times * FULL / 4, 120, ladder=SLOW)
    assert seen.p99 < TARGET
    assert seen.refused == 0
    assert seen.forms["rk4 x 8"] > 0.7 * seen.forms.total()
    assert len(seen.changes) <= 4


def test_a_clump_gets_a_shallower_form_and_the_level_stays():
    controller = DepthController(SLOW, TARGET)
    for ticket in range(4):
        assert controller.arrived(0.0, ticket) is None
    batch = controller.next_batch(0.0)
    assert batch is not None
    assert batch.form == "rk4 x 4"
    assert controller.form == "rk4 x 8"
    assert controller.changes == 0


def test_a_form_that_takes_half_the_target_comes_back():
    """Also where nothing but rest is between a flood and the next request."""
    ladder = [Rung("deep", 99.0, 50.0), Rung("flat", 95.0, 2.0)]
    seen = simulate(lambda t: 100 if 5 < t < 10 else 2, 40, ladder=ladder)
    assert seen.p99 < TARGET
    assert max(level for t, level in seen.levels) == 1
    assert seen.levels[-1][1] == 0


def test_rest_counts_as_room():
    controller, now = DepthController(LADDER, TARGET), 0.0
    for ticket in range(4000):  # a flood
        now += 0.001
        controller.arrived(now, ticket)
        if ticket % 20 == 0:
            while (batch := controller.next_batch(now)) is not None:
                controller.finished(now + controller.seconds(batch.form, batch.examples), batch)
    assert controller.level == 3
    forms = []
    for ticket in "ab":
        now += 60.0
        controller.arrived(now, ticket)
        batch = controller.next_batch(now)
        assert batch is not None
        forms.append(batch.form)
        controller.finished(now + 0.008, batch)
    assert forms[-1] == "rk4 x 8"


def test_a_form_that_is_late_alone_is_left_to_those_who_ask_for_it():
    controller = DepthController([Rung("too slow", 99.9, 90.0), *LADDER], TARGET)
    for ticket, form in enumerate((None, "too slow")):
        assert controller.arrived(0.0, ticket, form=form) is None
        batch = controller.next_batch(0.0)
        assert batch is not None
        assert batch.form == (form or "rk4 x 8")
        controller.finished(0.008 if form is None else 0.09, batch)


def test_it_comes_back_to_full_depth_when_the_flood_is_over():
    seen = simulate(lambda t: 4 * FULL if 5 < t < 10 else 0.3 * FULL, 30)
    assert seen.p99 < TARGET
    assert seen.refused == 0
    level = {at: next(level for t, level in seen.levels if t > at) for at in (4.5, 8, 20)}
    assert level[4.5] == 0
    assert level[8] >= 2
    assert level[20] == 0


@pytest.mark.parametrize("seed", range(3))
def test_bursts_are_answered_in_time(seed):
    """Every two seconds, 0.2 seconds at eight times what full depth can serve."""
    seen = simulate(lambda t: 8 * FULL if t % 2 < 0.2 else 0.4 * FULL, 20, seed=seed)
    assert seen.share_refused < 0.002
    assert seen.p99 < TARGET


def test_a_machine_that_becomes_slower_is_noticed():
    seen = simulate(steady(0.5), 30, slow=lambda t: 3.0 if 10 < t < 20 else 1.0)
    assert seen.share_refused < 0.002
    assert seen.p99 < TARGET
    assert next(level for t, level in seen.levels if t > 15) >= 1
    assert seen.levels[-1][1] == 0


def test_a_ladder_that_is_wrong_by_twice_is_corrected():
    told = [Rung(rung.name, rung.value, rung.example_ms * (0.5 if rung.value > 98.3 else 1.0)) for rung in LADDER]
    costs = {rung.name: rung for rung in LADDER}
    controller, now = DepthController(told, TARGET), 0.0
    for ticket in range(600):
        now += 0.02
        assert controller.arrived(now, ticket) is None
        batch = controller.next_batch(now)
        assert batch is not None
        controller.finished(now + costs[batch.form].milliseconds(1) / 1000, batch)
    assert controller.seconds("rk4 x 8", 10) == pytest.approx(0.08, rel=0.3)


def test_a_form_that_was_timed_on_a_busy_machine_is_tried_again():
    """The ladder says that the deepest form takes ten times as long as it does, which is too long."""
    told = [Rung("rk4 x 8", 98.5, 80.0), *LADDER[1:]]
    seen = simulate(steady(0.3), 60, ladder=LADDER, told=told)
    assert seen.p99 < TARGET
    assert seen.levels[-1][1] == 0
    assert seen.forms["rk4 x 8"] > 0.5 * seen.forms.total()


@pytest.mark.parametrize("times", [0.1, 0.5, 2])
def test_trying_a_form_that_is_too_slow_keeps_the_target(times):
    ladder = [Rung("too slow", 99.0, 150.0), *LADDER]
    seen = simulate(lambda t: times * FULL, 90, ladder=ladder)
    assert seen.p99 < TARGET
    assert seen.refused == 0
    assert seen.forms["too slow"] <= 0.004 * seen.forms.total()


def test_it_refuses_only_beyond_the_cheapest_form():
    cheapest = 2000.0
    assert simulate(lambda t: 0.6 * cheapest, 8).refused == 0
    beyond = simulate(lambda t: 2 * cheapest, 8)
    assert 0.3 < beyond.share_refused < 0.65
    assert beyond.p99 < TARGET
    assert beyond.forms["euler"] > 0.9 * beyond.forms.total()


def test_requests_that_ask_for_a_form_get_it():
    seen = simulate(steady(0.5), 10, asked=lambda n: "euler" if n % 3 == 0 else None)
    assert seen.forms["euler"] == pytest.approx(seen.forms.total() / 3, abs=1)
    assert seen.refused == 0


def test_one_request_is_never_refused_by_a_controller_that_rests():
    controller = DepthController([Rung("slow", 1.0, 500.0)], 10)
    assert controller.arrived(0.0, "first") is None
    wait = controller.arrived(0.0, "second")
    assert wait is not None
    assert wait > 0
    batch = controller.next_batch(0.0)
    assert batch == ("slow", ["first"], 1)
    controller.finished(0.5, batch)
    assert controller.next_batch(0.5) is None


def test_a_request_that_was_given_up_is_not_answered():
    controller = DepthController(LADDER, TARGET)
    for ticket in "abc":
        controller.arrived(0.0, ticket)
    controller.forget("b")
    batch = controller.next_batch(0.0)
    assert batch is not None
    assert batch.tickets == ["a", "c"]


def test_a_mistake_makes_it_wait_longer_before_the_next_try():
    """A load that looks as if there was room for the deeper form and then is too much for it, again and again."""
    seen = simulate(lambda t: 1.6 * FULL if t % 1.6 < 0.6 else 0.5 * FULL, 60, noise=0.05)
    halves = [sum(a <= t < a + 30 for t in seen.changes) for a in (0, 30)]
    assert halves[1] <= halves[0] + 2
    assert len(seen.changes) < 60 / HOLD_SECONDS / 3


def test_a_pass_of_one_may_take_as_long_as_one_of_two():
    rung = Rung("deep", 99.0, 9.0, pass_ms=11.0, least_ms=27.0)
    assert [rung.milliseconds(count) for count in (1, 2, 3)] == [27.0, 29.0, 38.0]
    controller = DepthController([rung, Rung("flat", 98.0, 1.0)], TARGET)
    for ticket in range(3):
        controller.arrived(0.0, ticket)
    batch = controller.next_batch(0.0)
    assert batch is not None
    assert batch == ("deep", [0, 1, 2], 3)


@given(
    st.lists(st.tuples(st.floats(0, 0.05), st.integers(1, 8), st.booleans()), min_size=1, max_size=40),
    st.floats(0.2, 4),
)
def test_every_request_is_taken_once_and_in_order(arrivals, slow):
    """Whatever arrives: what is accepted is answered once, by forms of the ladder, oldest first within a form."""
    controller, now, accepted, answered = DepthController(LADDER, TARGET, max_batch=8), 0.0, [], []
    for number, (pause, examples, is_served) in enumerate(arrivals):
        now += pause
        if controller.arrived(now, number, examples) is None:
            accepted.append(number)
        while is_served and (batch := controller.next_batch(now)) is not None:
            assert batch.examples <= 8
            now += controller.seconds(batch.form, batch.examples) * slow
            controller.finished(now, batch)
            answered += batch.tickets
    while (batch := controller.next_batch(now)) is not None:
        controller.finished(now + 0.001, batch)
        answered += batch.tickets
    assert answered == accepted
    assert controller.level in range(len(LADDER))


@pytest.mark.parametrize(
    ("ladder", "settings"),
    [
        ([], {}),
        (LADDER[:1] * 2, {}),
        ([Rung("a", 1.0, 0.0)], {}),
        ([Rung("a", 1.0, 1.0, 0.0, -1.0)], {}),
        (LADDER, {"p99_ms": 0}),
        (LADDER, {"max_batch": 0}),
    ],
)
def test_impossible_ladders_and_targets_are_refused(ladder, settings):
    with pytest.raises(ConfigError):
        DepthController(ladder, **{"p99_ms": TARGET, **settings})


def test_unknown_forms_are_refused():
    with pytest.raises(ConfigError, match="rk4 x 8"):
        DepthController(LADDER, TARGET).arrived(0.0, 1, form="rk5")
