"""Routes for the paper on univariate ReLU networks: section 3.3 and appendix A."""

from analytic.ledger.univariate import kernels, norms

MODULES = (kernels, norms)
ROUTES = {name: settled for module in MODULES for name, settled in module.ROUTES.items()}
