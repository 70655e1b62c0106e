"""The routes of every settled entry, by id."""

from analytic.ledger import beyond, curvature, univariate
from analytic.ledger.settlement import Settled

ROUTES: dict[str, Settled] = {**curvature.ROUTES, **univariate.ROUTES, **beyond.ROUTES}

__all__ = ["ROUTES", "Settled"]
