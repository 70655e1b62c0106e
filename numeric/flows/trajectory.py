"""States along an integration, as polynomials between the steps: in memory, or in a file that grows.

A step keeps its state at eight Chebyshev points, which determine the dense output of SciPy's Runge-Kutta
methods, polynomials of degree 7 at most, without reference to their coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.integrate import DenseOutput

from numeric.runs.store import Checkpoint, GrowingArray

__all__ = ["Trajectory"]

DEGREE = 7
NODES = -np.cos(np.pi * np.arange(DEGREE + 1) / DEGREE)  # on [-1, 1]
WEIGHTS = np.where(np.arange(DEGREE + 1) % 2, -1.0, 1.0)  # barycentric
WEIGHTS[[0, -1]] /= 2


@dataclass
class Trajectory:
    """States (n,) from the start to where it has come; rows are (from, to, states at 8 points)."""

    rows: list[np.ndarray] = field(default_factory=list, repr=False)
    file: GrowingArray | None = None

    @property
    def times(self) -> np.ndarray:
        """Times of the start and the end of each step, (steps + 1,)."""
        bounds = np.array([row[:2] for row in self.rows])
        return np.concatenate([bounds[:1, 0], bounds[:, 1]]) if len(bounds) else np.zeros(0)

    def __len__(self) -> int:
        return len(self.rows)

    def resume(self, file: Checkpoint, size: int) -> dict[str, Any] | None:
        """The checkpoint's state and its steps, if there is one; steps to come are appended beside it.

        size: of a state.
        """
        if file.path is None:
            return None
        state = file.read("cpu")
        beside = file.path.with_name(f"{file.path.name}.steps")
        if state is None:  # steps without their checkpoint belong to nothing
            beside.unlink(missing_ok=True)
        self.file = GrowingArray(beside, file.run, (2 + (DEGREE + 1) * size,))
        if state is None:
            return None
        self.file.truncate(state["steps"])
        self.rows = [np.array(row) for row in self.file.rows()]
        return state

    def on_disk(self) -> int:
        """How many steps there are, once all of them are where a checkpoint can count on them."""
        if self.file is not None:
            self.file.flush()
        return len(self)

    def append(self, dense: DenseOutput, start: float, stop: float, end: np.ndarray) -> None:
        """Add a step; `end` is the state at its end, where the dense output may be rounded."""
        times = (start + stop) / 2 + (stop - start) / 2 * NODES
        states = np.stack([*(dense(time) for time in times[:-1]), end])
        if self.rows:
            states[0] = self.end
        row = np.concatenate([[start, stop], states.ravel()])
        self.rows.append(row)
        if self.file is not None:
            self.file.append(row)

    @property
    def end(self) -> np.ndarray:
        """The last state."""
        return self.rows[-1][2:].reshape(DEGREE + 1, -1)[-1]

    def at(self, time: float) -> np.ndarray:
        """The state at a time, (n,)."""
        steps = len(self.rows)
        row = self.rows[min(int(np.searchsorted(self.times[1:], time)), steps - 1)]
        states = row[2:].reshape(DEGREE + 1, -1)
        distance = (2 * time - row[0] - row[1]) / (row[1] - row[0]) - NODES
        hit = np.abs(distance) < 1e-15
        if hit.any():
            return states[int(hit.argmax())].copy()
        shares = WEIGHTS / distance
        return shares @ states / shares.sum()
