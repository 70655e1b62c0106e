"""The exact path kernel of a recorded training run: what every training point did to a trained model."""

from numeric.path_kernel.exact import ExactPathKernel, Top
from numeric.path_kernel.optimisers import BackwardEuler, Leapfrog
from numeric.path_kernel.quadrature import GaussLegendre, LeftRiemann
from numeric.path_kernel.record import Record, load
from numeric.path_kernel.recording import Recorder, record

__all__ = [
    "BackwardEuler", "ExactPathKernel", "GaussLegendre", "Leapfrog", "LeftRiemann", "Record", "Recorder",
    "Top", "load", "record",
]  # fmt: skip
