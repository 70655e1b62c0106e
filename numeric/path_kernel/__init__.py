"""The exact path kernel of a recorded training run: what every training point did to a trained model."""

from numeric.path_kernel.exact import ExactPathKernel, Top
from numeric.path_kernel.influence import influence
from numeric.path_kernel.optimisers import SGDW, BackwardEuler, Leapfrog
from numeric.path_kernel.quadrature import GaussLegendre, LeftRiemann
from numeric.path_kernel.record import Record, load
from numeric.path_kernel.recording import Recorder, record
from numeric.path_kernel.two_copies import Copy, KernelMachine, TwoCopyKernel
from numeric.path_kernel.weighted_steps import retrain

__all__ = [
    "SGDW", "BackwardEuler", "Copy", "ExactPathKernel", "GaussLegendre", "KernelMachine", "Leapfrog",
    "LeftRiemann", "Record", "Recorder", "Top", "TwoCopyKernel", "influence", "load", "record", "retrain",
]  # fmt: skip
