"""Routes for the curvature paper: sections II to IV and appendix C."""

from analytic.ledger.curvature import erf, finite, gaussian, mehler, monomials, radial

ROUTES = (
    finite.ROUTES | radial.ROUTES | gaussian.ROUTES | erf.ROUTES | mehler.ROUTES | monomials.ROUTES
)
