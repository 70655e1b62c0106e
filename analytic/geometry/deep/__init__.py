"""Deep kernels: a recursion on the jets of kernels, and the formulas that use it."""

from analytic.geometry.deep.formulas import (
    layered,
    nngp_magnification,
    nngp_ricci,
    ntk_magnification,
    ntk_ricci,
)

__all__ = ["layered", "nngp_magnification", "nngp_ricci", "ntk_magnification", "ntk_ricci"]
