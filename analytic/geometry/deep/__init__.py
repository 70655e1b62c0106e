"""Deep kernels: the recursion on germs, and the formulas that read it."""

from analytic.geometry.deep.formulas import (
    layered,
    nngp_magnification,
    nngp_ricci,
    ntk_magnification,
    ntk_ricci,
)

__all__ = ["layered", "nngp_magnification", "nngp_ricci", "ntk_magnification", "ntk_ricci"]
