"""Training of any torch model, recorded: one loop, its checkpoints, and what a run leaves."""

from numeric.runs.result import Run
from numeric.runs.training import train

__all__ = ["Run", "train"]
