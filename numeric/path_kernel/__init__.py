"""The exact path kernel of a recorded training run: what every training point did to a trained model."""

from numeric.path_kernel.optimisers import BackwardEuler, Leapfrog
from numeric.path_kernel.record import Record, load
from numeric.path_kernel.recording import Recorder, record

__all__ = ["BackwardEuler", "Leapfrog", "Record", "Recorder", "load", "record"]
