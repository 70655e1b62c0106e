"""Is every single slip of a printed statement refused on its own, and what the text concludes from it?"""

from dataclasses import replace
from itertools import pairwise

import pytest
import sympy as sp
from mpmath import mp, mpf

from analytic.expressions.symbols import alpha, charge, delta, m
from analytic.ledger import Verdict, load
from analytic.ledger.univariate import change, lift, penalty
from analytic.ledger.univariate.change import speeds
from analytic.ledger.univariate.lift import recovered

ROUTES = change.ROUTES | lift.ROUTES | penalty.ROUTES
SCALE = (m / alpha) ** 2
P, Q = sp.symbols("p q", real=True)


def refused(entry: str, expr: sp.Expr) -> bool:
    claim = ROUTES[f"univariate-relu/{entry}"].claims[0]
    assert claim.holds()
    return not claim.about(replace(claim.statement, name="one slip", expr=expr)).holds()


def stated(entry: str) -> sp.Expr:
    return ROUTES[f"univariate-relu/{entry}"].claims[0].statement.expr


def test_nothing_of_the_paper_is_open() -> None:
    entries = load("univariate-relu").entries
    assert sum(len(entry.equations) for entry in entries) == 55
    assert not [entry.id for entry in entries if entry.verdict is Verdict.OPEN]


def test_the_factor_alone_fails_in_the_local_form() -> None:
    """(21) with its sign right, but c^2 without m^2/alpha^2."""
    true = stated("21")
    tangential = true.subs(P, 0)
    assert refused("21", true - tangential + tangential / SCALE)


def test_the_scale_alone_fails_in_proposition_8() -> None:
    """With its sign right: 4 r^2 under the root, or the entries of P, each without alpha."""
    true = stated("proposition-8")
    root = sp.sqrt(delta**2 + 4 * (alpha * charge / m) ** 2)
    assert true.has(root)
    assert refused("proposition-8", true.subs(root, sp.sqrt(delta**2 + 4 * charge**2)))
    angular, radial = true.subs(P, 0), true.subs(Q, 0)
    assert refused("proposition-8", radial + angular / SCALE)
    square = (delta + root) / 2
    ratio = (SCALE * (charge**2 / square + square)) / (charge**2 / square + SCALE * square)
    assert refused("proposition-8", radial * ratio + angular)


def test_each_slip_of_the_gradients_fails_alone() -> None:
    """(46): the sign of the derivative by b; the missing 1/alpha."""
    true = stated("46")
    b_part = true - true.subs(Q, 0)
    assert refused("46", true - 2 * b_part)
    assert refused("46", alpha * true)


def test_the_printed_gradients_would_not_keep_delta() -> None:
    """2c L_c - 2a L_a - 2b L_b with the printed signs is -4bc times the residual, with the right ones 0."""
    a, b, c, x, rho = sp.symbols("a b c x rho", real=True)
    by_a, by_c = c * x * rho, (a * x - b) * rho
    change = {sign: 2 * c * by_c - 2 * a * by_a - 2 * b * sign * c * rho for sign in (1, -1)}
    assert sp.expand(change[-1]) == 0
    assert sp.expand(change[1] + 4 * b * c * rho) == 0


def test_the_other_reading_of_the_total_variation_fails_too() -> None:
    """(16) without the factor r: a probability, whose total variation is 1."""
    assert refused("16", sp.S.One)


def test_neither_the_identity_nor_the_square_moves_the_plane() -> None:
    """(47) and the line after it, which has (u', v') = (r', theta')."""
    dr, turn = sp.symbols("dr dtheta", real=True)
    assert refused("47", P * dr + Q * turn)


def _share(m: int, alpha: str) -> mpf:
    """How far a neuron turns relative to how far it moves along, for one (a, b, c) and sample."""
    z, x = (mpf("0.9"), mpf("-0.4"), mpf("0.7")), mpf("0.6")
    alpha = mpf(alpha)
    own = z[2] * (z[0] * x - z[1]) / alpha
    dr, turn = speeds(z, x, own - 1, m, alpha)  # a residual of 1, whatever alpha is
    return m / alpha * z[2] * mp.hypot(z[0], z[1]) * turn / dr


def test_radial_motion_does_not_gain_from_alpha() -> None:
    """The sentence after (21): alpha = o(m) should make the radial component dominate."""
    shares = [_share(width, scale) for width, scale in ((1, "1"), (100, "10"), (10**6, "1"))]
    assert max(shares) - min(shares) < mpf(10) ** -12 * abs(shares[0])


def _turning(size: int, r: mpf) -> mpf:
    """theta'/r' over that of (7), which moves by the slopes of the loss, for delta = 10^size."""
    c, norm = recovered(mpf(10) ** size, r, 1, mpf(1))
    angle, x = mpf("0.5"), mpf("0.8")
    z = (norm * mp.cos(angle), -norm * mp.sin(angle), c)
    dr, turn = speeds(z, x, mpf("0.3"), 1, mpf(1))
    by_r, by_theta = x * mp.cos(angle) + mp.sin(angle), r * (mp.cos(angle) - x * mp.sin(angle))
    return turn / by_theta / (dr / by_r)


@pytest.mark.parametrize("r", ["0.5", "1", "3"])
def test_large_delta_does_not_follow_the_canonical_flow(r) -> None:
    """(7) has the ratio 1, the limit 1/r^2: they agree for |r| = 1 only. The rest is r^2/delta^2."""
    with mp.workdps(60):
        ratios = [_turning(size, mpf(r)) for size in (2, 3, 4)]
        assert (abs(ratios[-1] - 1) < 0.1) == (r == "1")
        errors = [abs(one * mpf(r) ** 2 - 1) for one in ratios]
        slopes = [mp.log10(one / other) for one, other in pairwise(errors)]
    assert all(abs(slope - 2) < 0.01 for slope in slopes)
    assert float(errors[-1]) == pytest.approx(float(r) ** 2 / 1e8, rel=1e-3)
