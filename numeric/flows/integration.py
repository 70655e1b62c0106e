"""Steps of SciPy's Runge-Kutta methods along a field, begun anew wherever the rank of D changes."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy.integrate import DenseOutput, OdeSolver
from scipy.optimize import brentq
from torch import Tensor

from numeric.flows.field import Field
from numeric.flows.ranges import Range, SpectralRange
from numeric.flows.trajectory import Trajectory
from numeric.inputs import InputError
from numeric.runs.store import Checkpoint

__all__ = ["RTOL", "Integration", "RankEvent", "require_method"]

RTOL = 100 * float(
    np.finfo(float).eps
)  # the least that SciPy takes: errors are absolute, in outputs
NEAR = 1e12  # condition number of D D^T that is reported as near rank loss
REGAIN = (
    10.0  # times the singular value at which it was lost: from here on a direction is used again
)
SHORT, OFTEN = 1e-6, 10  # steps below this share of the time that is left, so often: rank is lost
EVENTS = 100  # changes of rank after which an integration stops


@dataclass(frozen=True, eq=False)
class RankEvent:
    """A time at which D loses or regains directions of output space, or comes near to it."""

    time: float
    before: int  # rank
    after: int
    directions: Tensor = field(repr=False)  # (m, N, Q), orthonormal: lost, regained, or nearly lost
    ratio: float  # of the smallest singular value of D concerned to the largest

    def __str__(self) -> str:
        change = self.after - self.before
        what = "is nearly lost" if not change else "is lost" if change < 0 else "is regained"
        count = len(self.directions)
        examples = ", ".join(str(k) for k in self.examples)
        directions = f"a direction {what}" if count == 1 else f"{count} directions: each {what}"
        return (
            f"at {self.time:.6g} {directions} (rank {self.before} to {self.after}, singular value "
            f"{self.ratio:.1e} of the largest), mostly in examples {examples}"
        )

    @property
    def examples(self) -> list[int]:
        """Up to three examples with the largest share in the directions."""
        share = self.directions.square().sum((0, 2))
        return torch.argsort(share, descending=True)[:3].tolist()


class Integration:
    """Steps of SciPy's method, with a restart wherever the rank of D changes."""

    def __init__(
        self, field: Field, method: type[OdeSolver], end: float, tolerance: float, most: int
    ) -> None:
        self.field, self.method, self.end, self.tolerance = field, method, end, tolerance
        self.most = most
        self.trajectory = Trajectory()
        self.events: list[RankEvent] = []
        self.stopped: str | None = None
        self.time = 0.0
        self._step: float | None = None
        self._solver: OdeSolver | None = None
        self._warned = False  # of near rank loss, until it is over
        self._norm: float | None = None  # of D at the start
        self._regain = REGAIN * field.factorisations.rcond
        self._short = 0  # steps in a row
        self.seconds, self.counts = [0.0], [0]
        self._since = time.process_time()

    def resume(self, file: Checkpoint) -> None:
        """Continue from a checkpoint, if there is one."""
        state = self.trajectory.resume(file, len(self.field.initial()))
        if state is None:
            return
        self.time, self._step = float(self.trajectory.times[-1]), state["step"]
        self.field.rank, self.counts = state["rank"], state["counts"]
        self.field.evaluations = self.counts[-1]
        self.stopped, self._warned = state["stopped"], state["warned"]
        self.seconds, self._since = state["seconds"], time.process_time()
        self._norm, self._regain, self._short = state["norm"], state["regain"], state["short"]
        self.events = [
            RankEvent(directions=directions.to(self.field.map.run.points.device), **numbers)
            for numbers, directions in state["events"]
        ]

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        fields = ("time", "before", "after", "ratio")
        return {
            "steps": self.trajectory.on_disk(),
            "step": self._step,
            "rank": self.field.rank,
            "counts": self.counts,
            "stopped": self.stopped,
            "warned": self._warned,
            "norm": self._norm,
            "seconds": self.seconds,
            "regain": self._regain,
            "short": self._short,
            "events": [
                ({name: getattr(event, name) for name in fields}, event.directions)
                for event in self.events
            ],
        }

    def advance(self) -> bool:
        """Make one step; False at the end."""
        if self.time >= self.end or self.stopped is not None:
            return False
        if len(self.trajectory) >= self.most:
            self.stopped = (
                f"{self.most} steps were made up to {self.time:.6g}: the flow is stiff there"
            )
            return False
        if self._solver is None:
            self._begin(self.trajectory.end if len(self.trajectory) else self.field.initial())
        solver = self._solver
        assert solver is not None
        before = self.time
        with np.errstate(all="ignore"):  # stages that go too far
            solver.step()
        if solver.status == "failed":
            return self._singular(solver.y)
        stop, dense = float(solver.t), solver.dense_output()
        change = self._rank_change(dense, before, stop, solver.y)
        now = time.process_time()
        self.seconds.append(self.seconds[-1] + now - self._since)
        self._since = now
        self.counts.append(self.field.evaluations)
        if change is None:
            self.trajectory.append(dense, before, stop, solver.y)
            self.time, self._step = stop, float(solver.h_abs)
            self._short = self._short + 1 if stop - before < SHORT * (self.end - before) else 0
            if self._short >= OFTEN and self.field.alpha:
                return self._singular(solver.y)
        return True

    def _begin(self, state: np.ndarray) -> None:
        field = self.field
        if field.alpha and field.rank is None:
            range = field.range(state)
            field.rank = range.rank
            if range.rank < field.map.count and field.factorisations.dense:
                self._record(0.0, field.map.count, range, range.lost)
            self._warn_if_near(0.0, range)
        size = len(state)
        atol = np.full(size, self.tolerance / math.sqrt(size))
        if self._norm is None:
            self._norm = field.norm(state)
        atol[: field.map.parameters] /= self._norm
        remaining = self.end - self.time
        first = None if self._step is None else min(self._step, remaining)
        self._solver = self.method(
            field, self.time, state, self.end, rtol=RTOL, atol=atol, first_step=first
        )

    def _rank_change(
        self, dense: DenseOutput, start: float, stop: float, state: np.ndarray
    ) -> RankEvent | None:
        """End the step at the first change of rank within it, if there is one, and begin anew there."""
        field = self.field
        if not field.alpha:
            return None
        range = field.range(state)
        self._warn_if_near(stop, range)
        if not isinstance(range, SpectralRange):
            return None
        rank = range.rank
        lost, regained = self._gaps(range)
        if lost >= 0 and regained <= 0:
            return None
        which = 0 if lost < 0 else 1

        def gap(time: float) -> float:
            at = field.factorisations.spectral(field.theta(dense(time)), rank)
            return self._gaps(at)[which]

        with suppress(ValueError):  # no sign change: the step began beyond the limit
            stop = brentq(gap, start, stop, xtol=1e-12 * (stop - start), rtol=1e-13)
            state = dense(stop)
        range = field.factorisations.spectral(field.theta(state))
        if which == 0:
            after = min(range.rank, rank - 1)
            directions = range.left.T[after:rank]
        else:
            after = rank + 1
            directions = range.left.T[rank:after]
        event = self._record(
            stop, rank, SpectralRange(range.left, range.values, range.right, after), directions
        )
        self.trajectory.append(dense, start, stop, state)
        self.time, self._step, self._solver = stop, None, None
        field.rank = after
        return event

    def _gaps(self, range: SpectralRange) -> tuple[float, float]:
        """The smallest kept value above its limit (negative: lost), the largest other above its own."""
        r, rcond = range.rank, self.field.factorisations.rcond
        ratios = (range.values / range.values[0]).tolist()
        lost = ratios[r - 1] / rcond - 1 if r else 1.0
        regained = ratios[r] / self._regain - 1 if r < len(ratios) else -1.0
        return lost, regained

    def _singular(self, state: np.ndarray) -> bool:
        """Steps shrink to nothing: drop the smallest singular value, which the velocity divides by."""
        field = self.field
        rank = field.rank or 0
        if rank < 1 or not field.factorisations.dense:
            self.stopped = (
                f"no step is short enough at {self.time:.6g}: the velocity is not smooth there"
            )
            return False
        before = field.factorisations.spectral(field.theta(state), rank)
        after = SpectralRange(before.left, before.values, before.right, rank - 1)
        event = self._record(self.time, rank, after, before.left.T[rank - 1 : rank])
        field.rank, self._solver, self._step, self._short = rank - 1, None, None, 0
        self._regain = max(self._regain, REGAIN * event.ratio)
        return self.stopped is None

    def _warn_if_near(self, time: float, range: Range) -> None:
        """Record where the condition of D D^T leaves a Cholesky factorisation no digits to rely on."""
        near = (
            isinstance(range, SpectralRange)
            and range.rank == self.field.rank
            and range.condition > NEAR
        )
        if near and not self._warned:
            assert isinstance(range, SpectralRange)
            r = range.rank
            self._record(time, r, range, range.left.T[r - 1 : r])
        self._warned = near

    def _record(self, time: float, before: int, range: Range, directions: Tensor) -> RankEvent:
        shape = (-1, len(self.field.map.run.points), self.field.map.run.outputs)
        after, ratio = range.rank, math.nan
        if isinstance(range, SpectralRange):
            values = [
                *(range.values / range.values[0]).tolist(),
                0.0,
            ]  # 0: fewer parameters than outputs
            ratio = values[after] if after < before else values[after - 1]
        event = RankEvent(time, before, after, directions.reshape(shape).clone(), ratio)
        self.events.append(event)
        if len(self.events) >= EVENTS:
            self.stopped = (
                f"{EVENTS} changes of rank up to {time:.6g}: the flow slides along rank loss"
            )
        return event


def require_method(method: type[OdeSolver]) -> None:
    explicit = (
        isinstance(method, type) and issubclass(method, OdeSolver) and hasattr(method, "n_stages")
    )
    if not explicit:
        raise InputError(
            f"method = {method!r} was given, but a Runge-Kutta class of SciPy is needed, such as "
            "scipy.integrate.DOP853 or RK45."
        )
