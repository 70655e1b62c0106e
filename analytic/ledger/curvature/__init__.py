"""Routes for the curvature paper: sections II to IV, appendices C and D."""

from analytic.ledger.curvature import (
    empirical,
    erf,
    finite,
    gaussian,
    mehler,
    monomials,
    radial,
    stein,
    tangent,
)

ROUTES = (
    finite.ROUTES
    | radial.ROUTES
    | gaussian.ROUTES
    | erf.ROUTES
    | mehler.ROUTES
    | monomials.ROUTES
    | empirical.ROUTES
    | tangent.ROUTES
    | stein.ROUTES
)
