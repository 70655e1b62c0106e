"""A claim must be able to fail: on false statements, on NaN, on nothing to check."""

import sympy as sp
from mpmath import mp

from analytic.activations.activation import PSD
from analytic.checks.claims import Claim, changes, mutants, sample, survivors, with_switches
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import d, kxx, kxy, kyy, r, sigma

AREA = Formula("area", (r,), sp.pi * r**2)
POINTS = ({"r": 2}, {"r": "0.3"})


def _area(r: object) -> object:
    return mp.quad(lambda t: 2 * mp.sqrt(r**2 - t**2), [-r, 0, r])


def test_true_claim_holds() -> None:
    assert Claim(AREA, "integration", _area, POINTS, digits=15).holds()


def test_false_claim_is_refuted() -> None:
    wrong = Formula("area", (r,), sp.Rational(22, 7) * r**2)
    assert not Claim(wrong, "integration", _area, POINTS, digits=15).holds()


def test_nan_is_failure() -> None:
    zero = Formula("zero", (r,), r - r)
    for statement in (AREA, zero):
        assert not Claim(statement, "nothing", lambda r: mp.nan, POINTS).holds()


def test_statement_without_a_different_mutant_is_told() -> None:
    zero = Formula("zero", (r,), r - r)
    assert survivors(Claim(zero, "zero", lambda r: mp.mpf(0), POINTS)) != []


def test_refusal_is_failure() -> None:
    pole = Formula("pole", (r,), 1 / (r - 2))
    assert not Claim(pole, "nothing", lambda r: mp.inf, POINTS).holds()


def test_no_points_is_failure() -> None:
    assert not Claim(AREA, "integration", _area, ()).holds()


def test_zero_agrees_with_zero_only() -> None:
    zero = Formula("zero", (r,), r - r)
    assert Claim(zero, "zero", lambda r: mp.mpf(0), POINTS).holds()
    assert not Claim(zero, "almost zero", lambda r: mp.mpf("1e-60"), POINTS).holds()


def test_mutants_differ_from_the_original() -> None:
    expr = sp.exp(-sigma) * (d - 2) * r**3 + sp.sqrt(1 + r)
    wrong_versions = dict(mutants(expr))
    assert len(wrong_versions) >= 5
    assert all(sp.expand(wrong - expr) != 0 for wrong in wrong_versions.values())


def test_switches_make_each_mutant_and_leave_the_statement_alone() -> None:
    expr = sp.exp(-sigma) * (d - 2) * r**3 + sp.sqrt(1 + r) / (1 + r * (d - 2)) ** 2
    chosen = dict(zip(sp.symbols("on:9", integer=True, nonnegative=True), changes(expr)))
    family = with_switches(expr, chosen)
    assert family.free_symbols >= set(chosen)
    off = dict.fromkeys(chosen, 0)
    assert sp.simplify(family.subs(off) - expr) == 0
    for (switch, change), (name, mutant) in zip(chosen.items(), mutants(expr)):
        assert str(change) == name
        assert sp.simplify(family.subs(off | {switch: 1}) - mutant) == 0


def test_a_statement_that_cannot_be_evaluated_refuses_no_mutant() -> None:
    """A refusal counts only where the statement itself, written with switches, is accepted."""
    zero = Claim(Formula("root", (r,), sp.sqrt(-r)), "none", lambda r: mp.sqrt(r), POINTS)
    assert survivors(zero) == ["the statement itself, once it has switches"]


def test_blind_route_is_found_out() -> None:
    """A route tried only where a term vanishes cannot see that term."""
    formula = Formula("line", (r, sigma), r**2 + r * (sigma - 1))
    blind = Claim(formula, "sigma = 1 only", lambda r, sigma: r**2, ({"r": 2, "sigma": 1},))
    assert blind.holds()
    assert survivors(blind) != []
    keen = Claim(formula, "everywhere", lambda r, sigma: r * (r + sigma - 1), sample(formula, 3))
    assert keen.holds()
    assert survivors(keen) == []


def test_equivalent_mutants_do_not_count() -> None:
    even = Formula("even", (r,), (1 - r) ** 2 + (r - 1) ** 2)
    claim = Claim(even, "expanded", lambda r: 2 * r**2 - 4 * r + 2, sample(even, 3))
    assert claim.holds()
    assert survivors(claim) == []


def test_samples_come_from_the_domain() -> None:
    pair = Formula("pair", (kxx, kxy, kyy), kxx + kxy + kyy, PSD)
    points = sample(pair, 20)
    assert len({tuple(point.values()) for point in points}) == 20
    assert all(p["kxy"] ** 2 <= p["kxx"] * p["kyy"] for p in points)
    assert any(p["kxy"] < 0 for p in points)
