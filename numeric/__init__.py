"""torch experiments that try the closed forms of `analytic`, and fast kernels compiled from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analytic import lazy

if TYPE_CHECKING:
    from numeric import data as data
    from numeric import estimate as estimate
    from numeric import experiments as experiments
    from numeric import flows as flows
    from numeric import geodesics as geodesics
    from numeric import geometry as geometry
    from numeric import infinite as infinite
    from numeric import inputs as inputs
    from numeric import kernels as kernels
    from numeric import learned as learned
    from numeric import models as models
    from numeric import path_kernel as path_kernel
    from numeric import relu_dynamics as relu_dynamics
    from numeric import runs as runs
    from numeric import splines as splines
    from numeric import tangents as tangents
    from numeric.inputs import InputError as InputError

__getattr__, __dir__, __all__ = lazy.names(
    __name__,
    {
        "InputError": "numeric.inputs",
        "data": "numeric.data",
        "estimate": "numeric.estimate",
        "experiments": "numeric.experiments",
        "flows": "numeric.flows",
        "geodesics": "numeric.geodesics",
        "geometry": "numeric.geometry",
        "infinite": "numeric.infinite",
        "inputs": "numeric.inputs",
        "kernels": "numeric.kernels",
        "learned": "numeric.learned",
        "models": "numeric.models",
        "path_kernel": "numeric.path_kernel",
        "relu_dynamics": "numeric.relu_dynamics",
        "runs": "numeric.runs",
        "splines": "numeric.splines",
        "tangents": "numeric.tangents",
    },
)
