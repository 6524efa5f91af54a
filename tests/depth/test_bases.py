"""Bases: conformance of every registered family."""

import re
from fractions import Fraction as F
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import BSpline

from anydepth.depth.bases import BASES, Basis, make_basis, read_basis
from anydepth.depth.times import Instant, Side
from anydepth.depth.transfer import is_nested
from anydepth.errors import ConfigError
from small_units import sizes_of

EVERY = [(name, size) for name in BASES.names() for size in sizes_of(name)]
NESTING = {
    "constant": [1, 2, 4, 8, 16],
    "linear": [1, 2, 3, 5, 9],
    "discontinuous": [1, 2, 4, 8],
    "legendre": [1, 2, 4, 8],
    "bspline": [1, 2, 4, 5, 7],
}

instants = st.builds(
    lambda top, bottom, side: Instant(F(min(top, bottom), bottom), side),
    st.integers(0, 60),
    st.integers(1, 60),
    st.sampled_from(Side),
)


@pytest.mark.parametrize(("name", "size"), EVERY)
def test_conformance(name, size):
    basis = make_basis(name, size)
    assert basis.breakpoints[0] == 0
    assert basis.breakpoints[-1] == 1
    assert len(basis.control_points) == size
    vandermonde = basis.evaluate(basis.control_points)
    assert np.linalg.cond(vandermonde) < 1e3, "control points must determine the coefficients"
    assert read_basis(basis.describe()) == basis
    assert is_nested(basis, basis.refined())
    assert basis.resized(size) == basis


@pytest.mark.parametrize(("name", "size"), EVERY)
@given(instant=instants)
def test_ones_are_a_function_of_every_basis(name, size, instant):
    basis = make_basis(name, size)
    ones = np.linalg.solve(basis.evaluate(basis.control_points), np.ones(size))
    assert basis.evaluate([instant]) @ ones == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("name", "sizes"), NESTING.items())
def test_nested_growth(name, sizes):
    basis = make_basis(name, sizes[0])
    for size in sizes[1:]:
        basis = basis.refined()
        assert basis.size == size


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 16])
def test_bsplines_against_scipy(size):
    basis = make_basis("bspline", size)
    knots = np.array([float(knot) for knot in basis._clamped])
    times = np.linspace(0, 1, 41)
    ours = basis.evaluate([Instant(F(float(t)), Side.LEFT if t == 1 else Side.RIGHT) for t in times])
    theirs = BSpline.design_matrix(times, knots, basis.degree).toarray()
    np.testing.assert_allclose(ours, theirs, atol=1e-13)


@pytest.mark.parametrize("name", ["constant", "discontinuous"])
def test_a_jump_is_read_from_the_side_asked_for(name):
    basis = make_basis(name, 2 if name == "constant" else 4)
    half = F(1, 2)
    left, right = basis.evaluate([Instant(half, Side.LEFT), Instant(half, Side.RIGHT)])
    assert left @ right == 0


@pytest.mark.parametrize("name", ["constant", "linear"])
def test_non_uniform_knots(name):
    knots = [0, "1/10", 0.5, 1]
    basis = make_basis(name, knots=knots)
    assert basis.size == (3 if name == "constant" else 4)
    assert is_nested(basis, basis.refined())
    assert read_basis(basis.describe()) == basis
    assert make_basis(name, knots=[0, 0.5, 1]) == make_basis(name, 2 if name == "constant" else 3)


@pytest.mark.parametrize(
    ("name", "size", "knots"),
    [
        ("hat", 4, None),
        ("linear", 0, None),
        ("linear", -3, None),
        ("linear", 2.5, None),
        ("linear", True, None),
        ("linear", 10**9, None),
        ("discontinuous", 3, None),
        ("legendre", 129, None),
        ("legendre", None, [0, 0.5, 1]),
        ("constant", None, [0, 0.5]),
        ("constant", None, [0, 0.7, 0.5, 1]),
        ("constant", 5, [0, 0.5, 1]),
    ],
)
def test_bad_bases_are_refused(name, size, knots):
    with pytest.raises(ConfigError):
        make_basis(name, size, knots)


def _lacking(*names):
    """A class that has all of a basis but these."""
    whole = type(BASES["legendre"](1))
    kept = {key: vars(whole)[key] for key in ("breakpoints", "degree", "control_points", "evaluate", "refined")}
    return type("Mine", (Basis,), {"name": "mine"} | {key: kept[key] for key in kept if key not in names})


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (_lacking("degree", "refined"), "lacks degree, refined of anydepth.extend.Basis"),
        (lambda size: None, "is a function, expected a subclass of anydepth.extend.Basis"),
        (int, "class 'int', expected a subclass of anydepth.extend.Basis"),
        (type("Mine", (BASES["legendre"],), {}), "name: ClassVar"),
    ],
)
def test_what_is_no_basis_is_refused_at_once(part, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        BASES.register("mine")(part)
    assert "mine" not in BASES


class Powers(BASES["legendre"]):
    """1, t, t^2, ... with mistakes to choose from."""

    name: ClassVar[str] = "powers"
    mistake: ClassVar[str] = ""

    def evaluate(self, instants):
        values = np.array([[float(time) ** k for k in range(self.size)] for time, _ in instants])
        made = {"": values, "transposed": values[:, :1].T, "singular": 0 * values}
        return made[self.mistake]


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        ("transposed", r"'powers' of size 3: evaluate gives shape \(1, 3\).*a row for every instant"),
        ("singular", "'powers' of size 3: its values at the control points do not determine"),
    ],
)
def test_a_basis_of_others_with_wrong_values_is_named(mistake, says, monkeypatch):
    monkeypatch.setitem(BASES._parts, "powers", type("Wrong", (Powers,), {"mistake": mistake, "__module__": "mine"}))
    with pytest.raises(ConfigError, match=says):
        make_basis("powers", 3)
    monkeypatch.setitem(BASES._parts, "powers", type("Right", (Powers,), {"__module__": "mine"}))
    assert make_basis("powers", 3).size == 3
