"""Every formula of the catalogue, and every moment under it, by a route of its own."""

import pytest

from analytic import catalogue
from analytic.checks.catalogue import CLAIMS, DENSE
from analytic.checks.claims import Claim, survivors
from analytic.expressions.expectation import PairMoment

BY_MOMENTS = ("kernel", "slope")  # those of nngp.erf are claimed as moments.erf


def catalogued(subject: str) -> set[str]:
    """The names of the catalogue that the claims of a subject are about."""
    kind, _, act = subject.partition(".")
    if kind == "moments":
        return {f"{act}.{what}" for what in BY_MOMENTS if f"nngp.{act}.{what}" in catalogue}
    names = {name for name in catalogue if name.startswith(f"{subject}.")}
    return names - {f"nngp.{act}.{what}" for what in BY_MOMENTS}


def has_mutants(claim: Claim) -> bool:
    return not claim.statement.expr.has(PairMoment)  # a pure quadrature can only be off as a whole


@pytest.mark.parametrize("subject", CLAIMS)
def test_claims_hold_and_their_routes_refuse_mutants(subject: str) -> None:
    claims = list(CLAIMS[subject]())
    assert catalogued(subject) <= {claim.statement.name for claim in claims}
    for claim in claims:
        some = claim.at_first(1)
        assert some.holds(), f"{some}: off by {some.worst_error()}"
        if has_mutants(claim):
            assert survivors(claim, most=2) == [], str(claim)


@pytest.mark.sweep
@pytest.mark.parametrize("subject", CLAIMS)
def test_claims_hold_everywhere_and_refuse_more_mutants(subject: str) -> None:
    for claim in CLAIMS[subject]():
        assert claim.holds(), f"{claim}: off by {claim.worst_error()}"
        if has_mutants(claim):
            assert survivors(claim, most=12) == [], str(claim)


@pytest.mark.sweep
@pytest.mark.parametrize("subject", DENSE)
def test_more_claims_hold(subject: str) -> None:
    for claim in DENSE[subject]():
        assert claim.holds(), f"{claim}: off by {claim.worst_error()}"


def test_every_formula_of_the_catalogue_is_claimed() -> None:
    moments = {f"nngp.{name}" for subject in CLAIMS for name in catalogued(subject)}
    assert set(catalogue) <= moments.union(*map(catalogued, CLAIMS))
