"""The drop-in for torchdiffeq, side by side with torchdiffeq."""

import warnings

import pytest
import torch
import torchdiffeq as peer
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.autograd import gradcheck, gradgradcheck

import anydepth as ad
import anydepth.torchdiffeq as mine
from anydepth.errors import AnydepthWarning, ConfigError, ShapeError
from anydepth.torchdiffeq.adams import bashforth
from anydepth.torchdiffeq.methods import METHODS, scheme_of

ADAPTIVE = [name for name in METHODS if scheme_of(name).is_adaptive]
FIXED = [name for name in METHODS if name not in ADAPTIVE]
TIGHT = {"adaptive_heun": 1e-5, "fehlberg2": 1e-6, "bosh3": 1e-6, "dopri5": 1e-8, "dopri8": 1e-9}
"""A tolerance for each adaptive method that keeps its global error below 1e-3 in a moment."""
ROUNDING = {"rtol": 1e-9, "atol": 1e-10}
FORWARD, BACKWARD = [0.2, 0.5, 0.9, 1.1, 1.7], [1.3, 1.1, 0.4, 0.0]


class Field(nn.Module):
    """Nonlinear, with time and parameters in it; counts its evaluations and keeps their times."""

    def __init__(self, dtype=torch.float64):
        super().__init__()
        torch.manual_seed(3)
        self.inner, self.outer = nn.Linear(2, 5, dtype=dtype), nn.Linear(5, 2, dtype=dtype)
        self.times = []

    def forward(self, t, y):
        self.times.append(t.item())
        return torch.cos(2 * t) * self.outer(torch.tanh(self.inner(y))) - 0.3 * y * t


def times(values, dtype=torch.float64, grad=False):
    return torch.tensor(values, dtype=dtype, requires_grad=grad)


def start(dtype=torch.float64):
    return torch.tensor([[0.3, -0.7], [1.1, 0.4], [-0.2, 0.9]], dtype=dtype, requires_grad=True)


def gradients(solve, at, **kwargs):
    """The states, and the gradients of y0, t and the parameters for a loss that looks at all states."""
    field, y0, t = Field(), start(), times(at, grad=True)
    y = solve(field, y0, t, **kwargs)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    found = torch.autograd.grad((y * weights).sum(), [y0, t, *field.parameters()])
    return [y.detach(), *found]


def assert_close(found, expected, **limits):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, **(limits or ROUNDING))


@pytest.mark.parametrize("solver", ["odeint", "odeint_adjoint"])
@pytest.mark.parametrize("at", [FORWARD, BACKWARD], ids=["forward", "backward"])
@pytest.mark.parametrize(
    "options", [None, {"step_size": 0.17}, {"step_size": 0.13, "interp": "cubic"}, {"perturb": True}]
)
@pytest.mark.parametrize("method", [name for name in FIXED if name != "explicit_adams"])
def test_fixed_methods_are_torchdiffeqs_to_rounding(method, options, at, solver):
    settings = {"method": method, "options": options}
    limits = {"rtol": 1e-7, "atol": 1e-8} if options and "perturb" in options else ROUNDING
    assert_close(
        gradients(getattr(mine, solver), at, **settings), gradients(getattr(peer, solver), at, **settings), **limits
    )


@pytest.mark.parametrize("solver", ["odeint", "odeint_adjoint"])
@pytest.mark.parametrize("at", [FORWARD, BACKWARD], ids=["forward", "backward"])
@pytest.mark.parametrize("method", ADAPTIVE)
def test_adaptive_methods_agree_with_a_tight_reference(method, at, solver):
    tol = TIGHT[method]
    found = gradients(getattr(mine, solver), at, method=method, rtol=tol, atol=tol)
    expected = gradients(peer.odeint, at, method="dopri5", rtol=1e-11, atol=1e-11)
    assert_close(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("at", [FORWARD, BACKWARD], ids=["forward", "backward"])
@pytest.mark.parametrize("method", ADAPTIVE)
def test_no_more_evaluations_and_no_more_error_than_torchdiffeq(method, at, dtype):
    reference = peer.odeint(Field(), start(), times(at), rtol=1e-11, atol=1e-11).detach()
    counts, errors = [], []
    for solve in (mine.odeint, peer.odeint):
        field = Field(dtype)
        y = solve(field, start(dtype), times(at, dtype), method=method, rtol=1e-4, atol=1e-5)
        assert y.dtype == dtype
        counts.append(len(field.times))
        errors.append(float((y - reference).detach().abs().max()))
    assert counts[0] <= counts[1]
    assert errors[0] <= 1.2 * errors[1] + 1e-5


@pytest.mark.parametrize("method", ADAPTIVE)
def test_times_inside_steps_cost_nothing_and_the_field_is_read_inside_the_interval(method):
    counts = []
    for count in (2, 60):
        field = Field()
        mine.odeint(field, start(), torch.linspace(0.2, 1.7, count, dtype=torch.float64), method=method, rtol=1e-4)
        assert min(field.times) >= 0.2
        assert max(field.times) <= 1.7
        counts.append(len(field.times))
    assert counts[0] == counts[1]


@given(
    st.sampled_from([*METHODS]),
    st.lists(st.floats(-2, 2), min_size=2, max_size=6, unique_by=lambda t: round(t, 2)),
    st.booleans(),
)
@settings(max_examples=40)
def test_polynomials_of_the_methods_order_are_exact_at_any_times(method, at, is_increasing):
    scheme = scheme_of(method)
    order = scheme.dense.order if scheme.is_adaptive else scheme.order
    t = times(sorted(at, reverse=not is_increasing))
    found = mine.odeint(
        lambda s, y: order * s ** (order - 1) + 0 * y, t[:1] ** order, t, method=method, rtol=1e-3, atol=1e-3
    )
    torch.testing.assert_close(found[:, 0], t**order, rtol=1e-8, atol=1e-8)


@given(st.floats(0.02, 1.5), st.floats(0.1, 2), st.sampled_from([torch.float32, torch.float64]), st.booleans())
@settings(max_examples=25)
def test_a_step_size_gives_as_many_steps_as_in_torchdiffeq(size, end, dtype, is_increasing):
    t = torch.tensor([0.1, 0.1 + end] if is_increasing else [0.1 + end, 0.1], dtype=dtype)
    counts = []
    for package in (mine, peer):
        read = []
        package.odeint(lambda s, y, r=read: r.append(s) or -y, t[:1], t, method="euler", options={"step_size": size})
        counts.append(len(read))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("method", METHODS)
def test_one_time_gives_the_start_alone(method):
    y0 = start()
    for solve in (mine.odeint, mine.odeint_adjoint):
        found = solve(Field(), y0, times([0.5]), method=method)
        assert torch.equal(found, y0[None])
        (grad,) = torch.autograd.grad(found.sum(), y0)
        assert torch.equal(grad, torch.ones_like(y0))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0)])
@pytest.mark.parametrize("method", ["dopri5", "rk4"])
def test_states_of_one_number_and_of_none(method, shape):
    y = torch.ones(shape, dtype=torch.float64)
    found = mine.odeint(lambda t, y: -y, y, torch.linspace(0, 1, 4, dtype=torch.float64), method=method)
    assert found.shape == (4, *shape)


@pytest.mark.parametrize("solver", ["odeint", "odeint_adjoint"])
@pytest.mark.parametrize("method", ["dopri5", "rk4"])
def test_tuples_of_any_shapes(method, solver):
    def field(t, y):
        a, b = y
        return -a * b.sum(), [torch.cos(t), b.new_zeros(()), a.sum()][0] * b

    found = []
    for solve in (getattr(mine, solver), getattr(peer, solver)):
        y0 = torch.tensor(0.7, dtype=torch.float64, requires_grad=True), torch.full((2, 1, 3), 0.1).double()
        t = times(FORWARD, grad=True)
        extra = {"adjoint_params": ()} if solver == "odeint_adjoint" else {}
        a, b = solve(field, y0, t, method=method, **extra)
        assert (a.shape, b.shape) == ((5,), (5, 2, 1, 3))
        found.append([a.detach(), b.detach(), *torch.autograd.grad((a * b[:, 0, 0, 0]).sum(), [y0[0], t])])
    assert_close(*found, rtol=1e-5, atol=1e-6)


def test_a_tuple_of_one_and_of_two_precisions():
    (one,) = mine.odeint(lambda t, y: (-y[0],), (torch.ones(2),), times([0.0, 1.0]))
    assert one.shape == (2, 2)
    mixed = torch.ones(2), torch.ones(1, dtype=torch.float64)
    got, expected = (package.odeint(lambda t, y: (-y[0], y[1]), mixed, times([0.0, 1.0])) for package in (mine, peer))
    assert [part.dtype for part in got] == [part.dtype for part in expected]
    assert_close(got, expected, rtol=1e-6, atol=1e-7)


def test_half_precision_accumulates_in_float32():
    y0 = torch.ones(4, dtype=torch.bfloat16)
    found = mine.odeint(lambda t, y: -y, y0, torch.linspace(0, 1, 3), method="euler", options={"step_size": 0.001})
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found[-1].float(), torch.full((4,), 0.3677), atol=2e-3, rtol=0)


@pytest.mark.parametrize("method", METHODS)
def test_gradients_of_times_are_those_of_the_numbers_computed(method):
    def solve(y0, t):
        def field(s, y):
            return torch.sin(3 * s) * y - 0.5 * y**2

        widths = dict.fromkeys(("first_step", "min_step", "max_step"), 0.13)  # so that steps do not depend on y0
        options = {**widths, "step_t": times([0.61])} if method in ADAPTIVE else {"step_size": 0.11}
        return mine.odeint(field, y0, t, method=method, options=options)

    assert gradcheck(solve, (times([0.4, 0.9], grad=True), times([0.1, 0.37, 0.93], grad=True)))


def test_second_derivatives_by_backpropagation_and_a_refusal_by_the_adjoint():
    t = times([0.0, 0.6])
    weight = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)

    def solve(y0, weight):
        return mine.odeint(lambda s, y: torch.sin(weight * y), y0, t, rtol=1e-9)

    assert gradgradcheck(solve, (times([0.4], grad=True), weight), atol=1e-4)
    found = mine.odeint_adjoint(lambda s, y: torch.sin(weight * y), times([0.4]), t, adjoint_params=(weight,))
    (first,) = torch.autograd.grad(found.square().sum(), weight, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.backward()


def test_the_adams_method_is_torchdiffeqs_on_equal_steps_and_better_on_others():
    equal = torch.linspace(0, 2, 30, dtype=torch.float64)
    assert_close(*([p.odeint(Field(), start(), equal, method="explicit_adams").detach()] for p in (mine, peer)))
    uneven = torch.cat([equal, times([2.02, 2.5])])
    exact = peer.odeint(Field(), start(), uneven, rtol=1e-12, atol=1e-12)
    settings = {"method": "explicit_adams", "options": {"max_order": 5}}
    found = [package.odeint(Field(), start(), uneven, **settings) for package in (mine, peer)]
    own, other = ((y - exact).abs().max().item() for y in found)
    assert own < 0.1 * other
    assert bashforth(4) == pytest.approx([55 / 24, -59 / 24, 37 / 24, -9 / 24])


def test_float32_times_count_as_equal_steps():
    field = Field(torch.float32)
    mine.odeint(field, start(torch.float32), torch.linspace(0, 25, 1000), method="explicit_adams")
    assert len(field.times) == 999 + 2 * 3


@pytest.mark.parametrize("solver", ["odeint", "odeint_adjoint"])
def test_grid_constructors_see_func_and_state_as_given(solver):
    seen = []

    def grid(func, y0, t):
        seen.append(t.tolist())
        if len(seen) == 1:
            assert isinstance(y0, tuple)
            assert func(t[0], y0)[0].shape == (3, 2)
        return torch.linspace(float(t[0]), float(t[-1]), 8, dtype=t.dtype)

    inner, y0 = Field(), start()
    extra = {"adjoint_params": tuple(inner.parameters())} if solver == "odeint_adjoint" else {}
    options = {"grid_constructor": grid}
    (found,) = getattr(mine, solver)(
        lambda t, y: (inner(t, y[0]),), (y0,), times([0.2, 0.75, 1.1]), method="euler", options=options, **extra
    )
    found.sum().backward()
    assert seen == ([[0.2, 0.75, 1.1]] if solver == "odeint" else [[0.2, 0.75, 1.1], [1.1, 0.75], [0.75, 0.2]])


@pytest.mark.parametrize(("ends", "is_adjoint"), [([0.0, 1.0], False), ([1.0, 0.0], False), ([0.0, 1.0], True)])
@pytest.mark.parametrize("method", ADAPTIVE)
def test_jumps_are_landed_on_and_read_from_the_side_of_the_step(method, ends, is_adjoint):
    read = []

    def field(t, y):
        read.append(t.item())
        return torch.where(t < 0.5, -y, 2 * y)

    y0 = times([1.0], grad=True)
    extra = {"adjoint_params": ()} if is_adjoint else {}
    solve = mine.odeint_adjoint if is_adjoint else mine.odeint
    options = {"jump_t": times([0.5])}
    y = solve(field, y0, times(ends), method=method, rtol=1e-5, atol=1e-5, options=options, **extra)
    exact = torch.exp(torch.tensor(0.5 if ends[0] == 0 else -0.5, dtype=torch.float64))
    torch.testing.assert_close(y[-1, 0], exact, rtol=1e-3, atol=0)
    torch.testing.assert_close(torch.autograd.grad(y[-1].sum(), y0)[0][0], exact, rtol=1e-3, atol=0)
    assert 0.5 not in read


def test_step_t_is_landed_on():
    field = Field()
    mine.odeint(field, start(), times([0.0, 1.0]), options={"step_t": times([0.123456789])})
    assert 0.123456789 in field.times


def test_first_smallest_and_largest_steps():
    field = Field()
    mine.odeint(field, start(), times([0.0, 1.0]), options={"first_step": 0.01})
    assert field.times[1:5] == pytest.approx([0.002, 0.003, 0.008, 0.01 * 8 / 9])
    counts = []
    for options in ({}, {"max_step": 0.01}, {"min_step": 0.25}):
        field = Field()
        mine.odeint(field, start(), times([0.0, 1.0]), options=options)
        counts.append(len(field.times))
    assert counts[1] >= 600
    assert counts[2] <= 2 + 6 * 5 < counts[0]


def test_norms_see_the_state_as_it_was_given():
    seen = []

    def norm(state):
        seen.append(tuple(part.shape for part in state) if isinstance(state, tuple) else state.shape)
        parts = state if isinstance(state, tuple) else (state,)
        return max(part.abs().max() for part in parts)

    mine.odeint(Field(), start(), times([0.0, 1.0]), options={"norm": norm})
    assert set(seen) == {(3, 2)}
    seen.clear()
    mine.odeint(
        lambda t, y: (-y[0], y[1]), (torch.ones(()), torch.ones(2, 2)), times([0.0, 1.0]), options={"norm": norm}
    )
    assert set(seen) == {((), (2, 2))}


@pytest.mark.parametrize("rtol", [1e-6, torch.tensor(1e-6), torch.full((2,), 1e-6)])
def test_tolerances_of_every_kind(rtol):
    expected = mine.odeint(Field(), start(), times(FORWARD), rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(mine.odeint(Field(), start(), times(FORWARD), rtol=rtol, atol=1e-8), expected)


def test_tolerances_by_part_of_a_tuple():
    counts = []
    for rtol in (1e-3, (1e-3, 1e-8), [1e-8, torch.tensor(1e-3)]):
        field = Field()
        state = start(), start()
        mine.odeint(lambda t, y, f=field: (f(t, y[0]), -0.01 * y[1]), state, times(FORWARD), rtol=rtol, atol=1e-9)
        counts.append(len(field.times))
    assert counts[0] <= counts[1] < counts[2]


def test_adjoint_gradients_of_unused_frozen_and_foreign_parameters():
    field = Field()
    field.unused, field.frozen = nn.Linear(2, 2), nn.Parameter(torch.ones(1), requires_grad=False)
    mine.odeint_adjoint(field, start(), times(FORWARD), rtol=1e-4).sum().backward()
    assert not field.unused.weight.grad.any()
    assert field.frozen.grad is None
    assert field.inner.weight.grad.any()
    field.zero_grad()
    mine.odeint_adjoint(
        field, start(), times(FORWARD), rtol=1e-4, adjoint_params=field.outer.parameters()
    ).sum().backward()
    assert field.inner.weight.grad is None or not field.inner.weight.grad.any()
    scale = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    product = scale * 3
    y = mine.odeint_adjoint(lambda t, y: product * y, times([1.0]), times([0.0, 0.1]), adjoint_params=(product,))
    y[-1].sum().backward()
    assert float(scale.grad) == pytest.approx(0.3 * float(torch.exp(torch.tensor(0.6))), rel=1e-5)


def test_an_adjoint_of_a_field_that_does_not_depend_on_the_state():
    y0 = times([1.0], grad=True)
    y = mine.odeint_adjoint(lambda t, y: torch.ones_like(y), y0, times([0.0, 1.0, 2.0]), adjoint_params=())
    assert torch.autograd.grad(y.sum(), y0)[0] == 3


def test_a_seminorm_needs_no_more_evaluations_and_finds_the_same_gradients():
    found = []
    for options in (None, {"norm": "seminorm"}):
        field = Field()
        y = mine.odeint_adjoint(field, start(), times([0.0, 3.0]), rtol=1e-8, atol=1e-8, adjoint_options=options)
        field.times.clear()
        y[-1].sum().backward()
        found.append((len(field.times), field.inner.weight.grad))
    assert found[1][0] <= found[0][0]
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-4, atol=1e-6)


def test_adjoint_norms_see_all_parts_of_the_state():
    seen = set()

    def norm(parts):
        seen.add(tuple(part.shape for part in parts))
        return max(part.abs().max() for part in parts)

    weight = torch.ones(7, dtype=torch.float64, requires_grad=True)
    y = mine.odeint_adjoint(
        lambda t, y: (-y[0], weight.sum() * y[1]),
        (torch.ones(()).double(), torch.ones(2, 2).double()),
        times([0.0, 0.1]),
        adjoint_params=(weight,),
        adjoint_options={"norm": norm},
    )
    y[0].sum().backward()
    assert seen == {((), (), (2, 2), (), (2, 2), (7,))}


def test_the_adjoint_takes_other_tolerances_methods_and_options():
    given = {"adjoint_method": "rk4", "adjoint_options": {"step_size": 0.01}}
    expected = gradients(peer.odeint_adjoint, FORWARD, rtol=1e-8, **given)
    assert_close(gradients(mine.odeint_adjoint, FORWARD, rtol=1e-8, **given), expected, rtol=1e-6, atol=1e-6)
    counts = []
    for rtol in (1e-3, 1e-9):
        field = Field()
        y = mine.odeint_adjoint(field, start(), times([0.0, 3.0]), adjoint_rtol=rtol, adjoint_atol=rtol)
        field.times.clear()
        y.sum().backward()
        counts.append(len(field.times))
    assert counts[0] < counts[1]


def test_fixed_methods_go_with_function_transforms():
    t = times([0.0, 0.5])
    y0 = start().detach()
    field = Field()
    field.forward = lambda t, y: torch.tanh(field.inner(y)).sum(-1, keepdim=True) * y
    whole = mine.odeint(field, y0, t, method="rk4")[-1]
    rows = torch.func.vmap(lambda y: mine.odeint(field, y, t, method="rk4")[-1])(y0)
    torch.testing.assert_close(rows, whole)


LEFT_OUT = {
    "scipy": ({"method": "scipy_solver"}, "scipy"),
    "implicit": ({"method": "implicit_euler"}, "implicit"),
    "implicit adams": ({"method": "fixed_adams"}, "implicit"),
    "tsit5": ({"method": "tsit5"}, "tsit5"),
    "events": ({"event_fn": lambda t, y: y}, "event_fn"),
    "method": ({"method": ["dopri5"]}, "must be a name"),
    "options": ({"options": ["step_size"]}, "dictionary"),
    "slip": ({"method": "dorpi5"}, "did you mean 'dopri5'"),
    "interp": ({"method": "euler", "options": {"interp": "quintic"}}, "'linear' or 'cubic'"),
    "two grids": ({"method": "euler", "options": {"step_size": 0.1, "grid_constructor": lambda f, y, t: t}}, "exclude"),
    "wrong grid": ({"method": "euler", "options": {"grid_constructor": lambda f, y, t: t[:1]}}, "at least two"),
    "short grid": ({"method": "euler", "options": {"grid_constructor": lambda f, y, t: t / 2}}, "begins and ends"),
    "step size": ({"method": "euler", "options": {"step_size": -1}}, "positive"),
    "max_order": ({"method": "explicit_adams", "options": {"max_order": 30}}, "max_order"),
    "norm": ({"options": {"norm": "l2"}}, "norm"),
    "max_num_steps": ({"options": {"max_num_steps": 0.5}}, "max_num_steps"),
    "shared stop": ({"options": {"jump_t": [0.5], "step_t": [0.5]}}, "share"),
    "steps": ({"options": {"min_step": 2.0, "max_step": 1.0}}, "min_step"),
    "rtol": ({"rtol": -1.0}, "rtol"),
    "atol": ({"atol": torch.ones(5)}, "atol"),
}


@pytest.mark.parametrize("case", LEFT_OUT)
@pytest.mark.parametrize("solver", ["odeint", "odeint_adjoint"])
def test_what_is_left_out_is_refused_by_name_in_one_line(case, solver):
    settings, name = LEFT_OUT[case]
    with pytest.raises(ConfigError, match=name) as caught:
        getattr(mine, solver)(Field(), start(), times([0.0, 1.0]), **settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["callback_step", "callback_accept_step", "callback_reject_step_adjoint"])
def test_callbacks_are_refused(name):
    field = Field()
    setattr(field, name, lambda t, y, dt: None)
    with pytest.raises(ConfigError, match=name):
        mine.odeint(field, start(), times([0.0, 1.0]))


@pytest.mark.parametrize(
    ("y0", "t", "name"),
    [
        (torch.ones(2, dtype=torch.complex64), times([0.0, 1.0]), "complex"),
        ([torch.ones(2)], times([0.0, 1.0]), "tuple"),
        (torch.ones(2, dtype=torch.int64), times([0.0, 1.0]), "floating-point"),
        (torch.ones(2), [0.0, 1.0], "t must"),
        (torch.ones(2), torch.tensor([0, 1]), "t must"),
        (torch.ones(2), times([0.0, 1.0, 1.0]), "strictly"),
        (torch.ones(2), times([0.0, 1.0, 0.5]), "strictly"),
        (torch.ones(2), times([0.0, float("nan")]), "finite"),
        (torch.ones(2), torch.ones(0), "at least one"),
    ],
)
def test_states_and_times_that_cannot_be_used(y0, t, name):
    with pytest.raises(ConfigError, match=name):
        mine.odeint(lambda s, y: -y, y0, t)


@pytest.mark.parametrize("method", ["dopri5", "euler"])
def test_slopes_of_another_shape_are_refused(method):
    with pytest.raises(ShapeError, match=r"\(3,\), expected \(3, 2\)"):
        mine.odeint(lambda t, y: y.sum(-1), start(), times([0.0, 1.0]), method=method)
    with pytest.raises(ShapeError, match="expected"):
        mine.odeint(lambda t, y: y[0], (start(), start()), times([0.0, 1.0]), method=method)


@pytest.mark.parametrize("name", ["odeint_event", "odeint_dense"])
def test_other_entries_are_refused(name):
    with pytest.raises(ConfigError, match=name):
        getattr(mine, name)(Field(), start(), torch.tensor(0.0))


def test_the_adjoint_needs_to_know_its_parameters_and_options():
    with pytest.raises(ConfigError, match="adjoint_params"):
        mine.odeint_adjoint(lambda t, y: -y, start(), times([0.0, 1.0]))
    with pytest.raises(ConfigError, match="adjoint_options"):
        mine.odeint_adjoint(Field(), start(), times([0.0, 1.0]), options={"first_step": 0.1}, adjoint_method="rk4")
    with pytest.raises(ConfigError, match="seminorm"):
        mine.odeint_adjoint(Field(), start(), times([0.0, 1.0]), adjoint_options={"norm": "semi"})
    with pytest.raises(ConfigError, match="adjoint_rtol"):
        mine.odeint_adjoint(Field(), start(), times([0.0, 1.0]), rtol=torch.full((2,), 1e-6))


def test_unknown_options_have_no_effect_but_a_warning():
    with pytest.warns(AnydepthWarning, match="step_size is not an option of an adaptive method"):
        mine.odeint(Field(), start(), times([0.0, 1.0]), options={"step_size": 0.1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mine.odeint(Field(), start(), times([0.0, 1.0]), options={"dtype": torch.float64})


def test_failures_are_typed():
    with pytest.raises(ad.SolverError, match="max_num_steps=3"):
        mine.odeint(Field(), start(), times([0.0, 5.0]), options={"max_num_steps": 3})
    with pytest.raises(ad.SolverError, match="underflow"):
        mine.odeint(lambda t, y: y**2, times([1.0]), times([0.0, 2.0]))
    with pytest.raises(ad.SolverError, match="not finite"):
        mine.odeint(lambda t, y: y / 0, start(), times([0.0, 1.0]))
    with pytest.raises(ad.SolverError, match="not finite"):
        mine.odeint(lambda t, y: y / 0, start(), times([0.0, 1.0]), options={"min_step": 0.2, "first_step": 0.2})


def test_the_step_cap_is_counted_between_two_times():
    many = torch.linspace(0, 5, 40, dtype=torch.float64)
    mine.odeint(Field(), start(), many, options={"max_num_steps": 12})
