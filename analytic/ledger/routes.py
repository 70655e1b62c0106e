"""The verifications of all entries, by id. Their modules take time to import, so each is imported on use."""

from functools import cache
from importlib import import_module

from analytic.ledger.verification import Verification

__all__ = ["MODULES", "Verification", "all_routes", "routes_of"]

FOLDERS = {
    "curvature": (
        "finite", "hessian", "planar", "minors", "bumps", "radial", "gaussian", "erf", "mehler",
        "monomials", "empirical", "tangent", "stein", "posterior", "perturbation", "learned",
    ),
    "univariate": (
        "potential", "particles", "rays", "penalty", "lift", "change", "kernels", "norms",
    ),
    "path_kernel": (
        "representation", "positivity", "reduction", "classes", "schemes", "regression",
    ),
    "output_flow": ("pseudoinverse", "fields", "lines", "classes"),
    "equivariant": ("training", "layers", "augmentation"),
    "beyond": (
        "radial", "rectified_powers", "deep", "algebra", "critical", "total_curvature", "three_units", "arcs",
        "boosts", "regimes",
    ),
}  # fmt: skip
MODULES = tuple(f"{folder}.{name}" for folder, names in FOLDERS.items() for name in names)


def routes_of(module: str) -> dict[str, Verification]:
    """The verifications of one module, such as `curvature.erf`, by entry."""
    return import_module(f"analytic.ledger.{module}").ROUTES


@cache
def all_routes() -> dict[str, Verification]:
    """The verifications of every module, by entry."""
    return {entry: one for module in MODULES for entry, one in routes_of(module).items()}
