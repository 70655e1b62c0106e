"""Training of any torch model, recorded: one loop, its checkpoints, and what a run leaves."""

from numeric.training.loop import train
from numeric.training.run import Run

__all__ = ["Run", "train"]
