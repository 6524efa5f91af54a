"""Dense output: derived from the tableau, of the order it claims, and meeting the step at both ends."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anydepth.depth.schemes import SCHEMES
from anydepth.depth.trees import density, elementary_weights, vertices

ORDERS = {
    "euler": 1,
    "midpoint": 2,
    "heun": 2,
    "heun3": 2,
    "ralston": 2,
    "rk4": 3,
    "rk4_38": 2,
    "heun21": 2,
    "fehlberg21": 2,
    "bosh32": 3,
    "dopri54": 4,
    "dopri87": 5,
}


@pytest.mark.parametrize("name", SCHEMES.names())
def test_order_is_derived(name):
    assert SCHEMES[name].dense.order == ORDERS[name]


@given(st.sampled_from(SCHEMES.names()), st.floats(0, 1))
def test_order_conditions_hold_inside_the_step(name, theta):
    scheme = SCHEMES[name]
    (weights,) = scheme.dense.weights([theta])
    for tree, phi in elementary_weights(scheme.a, scheme.dense.order):
        assert weights @ phi == pytest.approx(theta ** vertices(tree) / density(tree), abs=1e-9)


@pytest.mark.parametrize("name", SCHEMES.names())
def test_it_meets_both_ends_of_the_step(name):
    scheme = SCHEMES[name]
    start, near, end = scheme.dense.weights([0.0, 1e-7, 1.0])
    assert np.allclose(start, 0)
    assert np.allclose(near / 1e-7, np.eye(scheme.stages)[0], atol=1e-4)
    assert np.allclose(end, [float(b) for b in scheme.b], atol=1e-11)


@pytest.mark.parametrize("name", ["bosh32", "dopri54", "dopri87"])
def test_first_same_as_last_slopes_join_smoothly(name):
    dense = SCHEMES[name].dense
    before, end = dense.weights([1 - 1e-7, 1.0])
    assert np.allclose((end - before) / 1e-7, np.eye(SCHEMES[name].stages)[-1], atol=1e-4)


@pytest.mark.parametrize("name", [name for name in SCHEMES if SCHEMES[name].is_adaptive])
def test_one_step_has_the_order_that_was_derived(name):
    errors = np.array([_error_inside(SCHEMES[name], width) for width in (0.2, 0.1, 0.05)])
    assert np.log2(errors[:-1] / errors[1:])[-1] > SCHEMES[name].dense.order + 0.7


def _error_inside(scheme, width):
    """Largest error inside one step of y' = y cos(t), y(1) = 1."""
    slopes: list[float] = []
    for row, c in zip(scheme.a, scheme.c, strict=True):
        y = 1 + width * sum(float(x) * k for x, k in zip(row, slopes, strict=True))
        slopes.append(y * np.cos(1 + float(c) * width))
    thetas = np.linspace(0.05, 0.95, 19)
    found = 1 + width * scheme.dense.weights(thetas) @ np.array(slopes)
    return np.abs(found - np.exp(np.sin(1 + thetas * width) - np.sin(1))).max()
