"""Routes for the curvature paper: sections II to IV and appendix C."""

from analytic.ledger.curvature import examples, finite, gaussian, radial

ROUTES = finite.ROUTES | radial.ROUTES | gaussian.ROUTES | examples.ROUTES
