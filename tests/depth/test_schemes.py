"""Schemes: order conditions, and nothing declared that can be derived."""

from fractions import Fraction as F

import pytest

from anydepth.depth.schemes import SCHEMES, Scheme
from anydepth.depth.trees import density, trees
from anydepth.errors import ConfigError

ORDERS = {
    "euler": (1, None),
    "midpoint": (2, None),
    "heun": (2, None),
    "heun3": (3, None),
    "ralston": (2, None),
    "rk4": (4, None),
    "rk4_38": (4, None),
    "heun21": (2, 1),
    "fehlberg21": (2, 1),
    "bosh32": (3, 2),
    "dopri54": (5, 4),
    "dopri87": (8, 7),
}


def test_counts_of_rooted_trees():
    assert [len(trees(n)) for n in range(1, 9)] == [1, 1, 2, 4, 9, 20, 48, 115]


def test_density_of_tall_and_bushy_trees():
    chain = ((((),),),)
    bush = ((), (), ())
    assert (density(chain), density(bush)) == (24, 4)


@pytest.mark.parametrize("name", SCHEMES.names())
def test_order_follows_from_the_tableau(name):
    scheme = SCHEMES[name]
    assert (scheme.order, scheme.low_order) == ORDERS[name]


def test_one_wrong_digit_lowers_the_order():
    broken = Scheme("broken", SCHEMES["rk4"].a, (F(1, 6), F(1, 3), F(1, 4), F(1, 4)))
    assert broken.order < 4


def test_first_same_as_last_is_derived():
    assert [name for name in SCHEMES if SCHEMES[name].is_fsal] == ["bosh32", "dopri54", "dopri87"]


def test_rk4_is_classic_and_38_is_another():
    assert SCHEMES["rk4"].c == (0, F(1, 2), F(1, 2), 1)
    assert SCHEMES["rk4_38"].c == (0, F(1, 3), F(2, 3), 1)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (((F(1, 2),),), (F(1),)),
        (((), (F(1, 2),)), (F(1, 2), F(1, 3))),
        (((), (F(1, 2),)), (F(1),)),
    ],
)
def test_malformed_tableaus_are_refused(a, b):
    with pytest.raises(ConfigError):
        Scheme("bad", a, b)
