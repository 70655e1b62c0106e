"""Routes for the paper on univariate ReLU networks."""

from analytic.ledger.univariate import (
    change,
    kernels,
    lift,
    norms,
    particles,
    penalty,
    potential,
    rays,
)

MODULES = (potential, particles, rays, penalty, lift, change, kernels, norms)
ROUTES = {name: settled for module in MODULES for name, settled in module.ROUTES.items()}
