"""The routes of every settled entry, by id. A module of routes takes time, and is imported when asked for."""

from functools import cache
from importlib import import_module

from analytic.ledger.settlement import Settled

__all__ = ["MODULES", "Settled", "all_routes", "routes_of"]

FOLDERS = {
    "curvature": (
        "finite", "hessian", "planar", "minors", "bumps", "radial", "gaussian", "erf", "mehler",
        "monomials", "empirical", "tangent", "stein", "posterior", "perturbation", "learned",
    ),
    "univariate": (
        "potential", "particles", "rays", "penalty", "lift", "change", "kernels", "norms",
    ),
    "beyond": (
        "radial", "rough", "deep", "algebra", "critical", "total", "three", "arcs", "boosts", "regimes",
    ),
}  # fmt: skip
MODULES = tuple(f"{folder}.{name}" for folder, names in FOLDERS.items() for name in names)


def routes_of(module: str) -> dict[str, Settled]:
    """Those of one module, as `curvature.erf`."""
    return import_module(f"analytic.ledger.{module}").ROUTES


@cache
def all_routes() -> dict[str, Settled]:
    return {entry: settled for module in MODULES for entry, settled in routes_of(module).items()}
