"""Transfer matrices: the laws of refinement, interpolation, projection and fit."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial.legendre import leggauss

from anydepth.depth.bases import BASES, make_basis
from anydepth.depth.grids import uniform
from anydepth.depth.schemes import SCHEMES, fixed_schemes
from anydepth.depth.times import Instant, exact
from anydepth.depth.transfer import (
    RANK,
    design_rows,
    error_factor,
    fit,
    interpolate,
    is_nested,
    norm_factor,
    project,
    refine,
)
from small_units import sizes_of

NON_UNIFORM = [
    make_basis("constant", knots=[0, 0.1, 0.15, 0.7, 1]),
    make_basis("linear", knots=[0, "1/7", 0.5, 0.9, 1]),
]
EVERY = [make_basis(name, size) for name in BASES.names() for size in sizes_of(name)] + NON_UNIFORM
SOME = [
    make_basis(name, size) for name in BASES.names() for size in sizes_of(name) if size in (1, 2, 4, 5, 8, 12)
] + NON_UNIFORM


def ids(basis):
    return str(basis)


@pytest.mark.parametrize("old", EVERY, ids=ids)
def test_projection_inverts_refinement(old):
    new, grow = refine(old)
    np.testing.assert_allclose(project(new, old) @ grow, np.eye(old.size), atol=1e-12)


@pytest.mark.parametrize("old", EVERY, ids=ids)
def test_refinement_changes_no_value(old):
    new, grow = refine(old)
    times = [Instant(exact(t)) for t in np.linspace(0, 1, 101)]
    np.testing.assert_allclose(new.evaluate(times) @ grow, old.evaluate(times), atol=1e-12)


@pytest.fixture(scope="module")
def weighted():
    """Every basis on 12 Gauss points in each of many small cells that contain all breakpoints, with their weights.

    Exact for products of polynomials of degree 11, the highest here.
    """
    cuts = np.unique([float(point) for basis in SOME for point in basis.breakpoints])
    nodes, weights = leggauss(12)
    times = np.concatenate([(a + b) / 2 + (b - a) / 2 * nodes for a, b in pairwise(cuts)])
    mass = np.sqrt(np.concatenate([(b - a) / 2 * weights for a, b in pairwise(cuts)]))[:, None]
    points = [Instant(exact(float(t))) for t in times]
    return {basis: mass * basis.evaluate(points) for basis in SOME}


@pytest.mark.parametrize("old", SOME, ids=ids)
def test_projection_against_independent_quadrature(old, weighted):
    for new in SOME:
        expected = np.linalg.lstsq(weighted[new], weighted[old], rcond=None)[0]
        np.testing.assert_allclose(project(old, new), expected, atol=1e-10, err_msg=f"{old} -> {new}")


def test_projection_of_constants_averages_pairs():
    expected = np.kron(np.eye(4), [[0.5, 0.5]])
    np.testing.assert_allclose(project(make_basis("constant", 8), make_basis("constant", 4)), expected, atol=1e-15)


@pytest.mark.parametrize(("old", "new"), list(product(SOME[::3], SOME[::4])), ids=ids)
def test_interpolation_agrees_at_control_points(old, new):
    points = new.control_points
    np.testing.assert_allclose(new.evaluate(points) @ interpolate(old, new), old.evaluate(points), atol=1e-10)


def test_papers_splitting_rules():
    np.testing.assert_array_equal(refine(make_basis("constant", 3))[1], np.kron(np.eye(3), [[1.0], [1.0]]))
    np.testing.assert_array_equal(
        refine(make_basis("linear", 3))[1], [[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 0.5, 0.5], [0, 0, 1]]
    )


@pytest.mark.parametrize("old", SOME, ids=ids)
def test_error_factor_measures_the_change(old):
    new = make_basis("constant", 3)
    matrix = project(old, new)
    coefficients = np.random.default_rng(0).normal(size=old.size)
    times = (np.arange(4000) + 0.5) / 4000
    points = [Instant(exact(float(t))) for t in times]
    gap = (old.evaluate(points) - new.evaluate(points) @ matrix) @ coefficients
    assert np.linalg.norm(error_factor(old, new, matrix) @ coefficients) == pytest.approx(
        np.sqrt((gap**2).mean()), rel=5e-3, abs=1e-9
    )
    function = old.evaluate(points) @ coefficients
    assert np.linalg.norm(norm_factor(old) @ coefficients) == pytest.approx(np.sqrt((function**2).mean()), rel=5e-3)


def test_nesting_is_found_out_not_declared():
    assert is_nested(make_basis("constant", 4), make_basis("discontinuous", 8))
    assert is_nested(make_basis("linear", 3), make_basis("discontinuous", 4))
    assert is_nested(make_basis("legendre", 4), make_basis("bspline", 7))
    assert not is_nested(make_basis("linear", 4), make_basis("linear", 5))
    assert not is_nested(make_basis("constant", 2), make_basis("linear", 9))


@pytest.mark.parametrize(("name", "scheme", "steps"), list(product(BASES.names(), fixed_schemes(), [1, 2, 5, 8])))
def test_fit_of_a_function_gives_it_back(name, scheme, steps):
    """Samples of a function in the span change nothing, whether or not they determine it."""
    instants = [i for step in uniform(steps).stages(SCHEMES[scheme]) for i in step]
    for size in (s for s in (1, 2, 4, 8) if s in sizes_of(name)):
        design = make_basis(name, size).evaluate(instants)
        old = np.random.default_rng(size).normal(size=size)
        from_samples, keep_old = fit(design)
        new = from_samples @ (design @ old) + (0 if keep_old is None else keep_old @ old)
        if keep_old is not None or np.linalg.cond(design) < 1e5:
            np.testing.assert_allclose(new, old, atol=1e-9)


@given(st.integers(1, 8), st.integers(1, 8), st.sampled_from(BASES.names()), st.integers(0, 10**6))
def test_fit_is_the_minimum_norm_update(steps, size, name, seed):
    """Against numpy's minimum-norm least squares of the residual."""
    if size not in sizes_of(name):
        return
    design = make_basis(name, size).evaluate([i for step in uniform(steps).stages(SCHEMES["rk4"]) for i in step])
    rng = np.random.default_rng(seed)
    old, samples = rng.normal(size=size), rng.normal(size=len(design))
    from_samples, keep_old = fit(design)
    new = from_samples @ samples + (0 if keep_old is None else keep_old @ old)
    update = np.linalg.lstsq(design, samples - design @ old, rcond=RANK)[0]
    np.testing.assert_allclose(new, old + update, atol=1e-7)


def test_several_samples_in_one_cell_are_averaged():
    design = make_basis("constant", 2).evaluate([i for step in uniform(2).stages(SCHEMES["rk4"]) for i in step])
    from_samples, keep_old = fit(design)
    np.testing.assert_array_equal(from_samples, np.kron(np.eye(2), [[0.25] * 4]))
    assert keep_old is None


def test_distinct_rows_reproduce_the_design():
    instants = [i for step in uniform(4).stages(SCHEMES["rk4"]) for i in step]
    basis = make_basis("linear", 5)
    rows, index = design_rows(basis, instants)
    np.testing.assert_array_equal(rows[index], basis.evaluate(instants))
    assert len(rows) == 9
