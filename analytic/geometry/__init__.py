"""Metric, volume and curvature: of any symbolic metric, and of shallow and deep kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analytic import lazy

if TYPE_CHECKING:
    from analytic.geometry import deep as deep
    from analytic.geometry import kernel_jet as kernel_jet
    from analytic.geometry import layer_moments as layer_moments
    from analytic.geometry import nngp as nngp
    from analytic.geometry import ntk as ntk
    from analytic.geometry import radial as radial
    from analytic.geometry import riemann as riemann

MODULES = ("deep", "kernel_jet", "layer_moments", "nngp", "ntk", "radial", "riemann")
__getattr__, __dir__, __all__ = lazy.names(
    __name__, {name: f"{__name__}.{name}" for name in MODULES}
)
