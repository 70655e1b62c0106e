"""Training of any torch model: one loop, its checkpoints, and its result."""

from numeric.runs.result import Run
from numeric.runs.training import Batch, train

__all__ = ["Batch", "Run", "train"]
