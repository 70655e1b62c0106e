"""Geometry that any feature map pulls back to its inputs: metric, volume, spectrum and curvature.

Convention: the unit d-sphere has R = +d(d-1); condition numbers are of the Jacobian, the roots of
those of the metric. Names are loaded when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "FeatureMap": "feature_map",
    "LogVolume": "volume",
    "Ricci": "ricci",
    "Spectrum": "volume",
    "log_volume": "volume",
    "metric": "ricci",
    "ricci_estimate": "probes",
    "ricci_scalar": "ricci",
    "spectrum": "volume",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"numeric.geometry has no {name}: it has {', '.join(__all__)}.")
    return getattr(import_module(f"numeric.geometry.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
