"""Routes for the curvature paper: sections II to IV, appendices A to F."""

from analytic.ledger.curvature import (
    bumps,
    empirical,
    erf,
    finite,
    gaussian,
    hessian,
    learned,
    mehler,
    minors,
    monomials,
    perturbation,
    planar,
    posterior,
    radial,
    stein,
    tangent,
)

MODULES = (
    finite, hessian, planar, minors, bumps, radial, gaussian, erf, mehler, monomials, empirical, tangent,
    stein, posterior, perturbation, learned,
)  # fmt: skip
ROUTES = {name: settled for module in MODULES for name, settled in module.ROUTES.items()}
