"""Shallow networks of finite width in symbols: appendices A and B of the curvature paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analytic import lazy

if TYPE_CHECKING:
    from analytic.finite import bumps as bumps
    from analytic.finite import erf3 as erf3
    from analytic.finite import forms as forms
    from analytic.finite import units as units

MODULES = ("bumps", "erf3", "forms", "units")
__getattr__, __dir__, __all__ = lazy.names(
    __name__, {name: f"{__name__}.{name}" for name in MODULES}
)
