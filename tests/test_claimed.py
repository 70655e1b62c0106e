"""Every formula of the catalogue, and every moment under it, by a route of its own."""

import pytest

from analytic import catalogue
from analytic.claimed import CLAIMS
from analytic.claims import Claim, survivors
from analytic.expectation import PairMoment

BY_QUADRATURE = {"nngp.elu.kernel", "nngp.elu.slope"}  # tried as elu.kernel and elu.slope


@pytest.mark.parametrize("claim", CLAIMS, ids=[f"{k}-{claim}" for k, claim in enumerate(CLAIMS)])
def test_claim_holds_and_its_route_refuses_mutants(claim: Claim) -> None:
    assert claim.holds(), f"off by {claim.worst_error()}"
    if not claim.statement.expr.has(
        PairMoment
    ):  # a mutant of a pure quadrature is one percent more
        assert survivors(claim) == []


def test_every_formula_of_the_catalogue_is_claimed() -> None:
    claimed = {claim.statement.name for claim in CLAIMS}
    moments = {f"nngp.{name}" for name in claimed if name.endswith((".kernel", ".slope"))}
    assert set(catalogue) <= claimed | moments
    assert moments >= BY_QUADRATURE
