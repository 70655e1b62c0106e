"""Steps of SciPy's Runge-Kutta methods along a field, begun anew wherever the rank of D changes.

`run_to_end` makes the steps of this and of other integrations, with a progress bar and a checkpoint.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import Any, Protocol

import numpy as np
from scipy.integrate import DenseOutput, OdeSolver
from scipy.optimize import brentq
from torch import Tensor

from numeric.flows.field import Field
from numeric.flows.ranges import SpectralRange, Unsolved
from numeric.flows.rank_events import RankEvent, RankWatch
from numeric.flows.trajectory import Trajectory
from numeric.inputs import InputError
from numeric.progress import progress_bar
from numeric.runs.store import Checkpoint

__all__ = ["RTOL", "Integration", "Stepper", "require_method", "run_to_end"]

RTOL = 100 * float(
    np.finfo(float).eps
)  # the least that SciPy takes: errors are absolute, in outputs
REGAIN = (
    10.0  # times the singular value at which it was lost: from here on a direction is used again
)
SHORT, OFTEN = 1e-6, 10  # steps below this share of the time that is left, so often: rank is lost
EVENTS = 100  # changes of rank after which an integration stops
KINK = ", along a loss of rank or a kink of the model, where D jumps"


class Stepper(Protocol):
    """What makes the steps of an integration, and says what a checkpoint of it holds."""

    time: float
    trajectory: Trajectory

    def resume(self, file: Checkpoint) -> None: ...

    def advance(self) -> bool: ...

    def state(self) -> dict[str, Any]: ...


def run_to_end(stepper: Stepper, end: float, file: Checkpoint, progress: bool) -> None:
    """Make steps from the last checkpoint on, until `advance` says that no more are to be made."""
    stepper.resume(file)
    with progress_bar(of="time", show=progress, total=end, initial=stepper.time) as bar:
        try:
            while stepper.advance():
                bar.update(stepper.time - bar.n)
                file.write_when_due(stepper.state)
        finally:
            if len(stepper.trajectory) and file.path is not None:
                file.write(stepper.state())


class Integration:
    """Steps of SciPy's method, with a restart wherever the rank of D changes."""

    def __init__(
        self, field: Field, method: type[OdeSolver], end: float, tolerance: float, most: int
    ) -> None:
        self.field, self.method, self.end, self.tolerance = field, method, end, tolerance
        self.most = most
        self.trajectory = Trajectory()
        run = field.map.run
        shape, rcond = (len(run.points), run.outputs), field.factorisations.rcond
        self.watch = RankWatch(shape, run.points.dtype, rcond)
        self.stopped: str | None = None
        self.time = 0.0
        self._step: float | None = None
        self._solver: OdeSolver | None = None
        self._norm: float | None = None  # of D at the start
        self._regain = REGAIN * rcond
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
        self.stopped = state["stopped"]
        self.seconds, self._since = state["seconds"], time.process_time()
        self._norm, self._regain, self._short = state["norm"], state["regain"], state["short"]
        self.watch.resume(state["ranks"], self.field.map.run.points.device)

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {
            "steps": self.trajectory.on_disk(),
            "step": self._step,
            "rank": self.field.rank,
            "counts": self.counts,
            "stopped": self.stopped,
            "norm": self._norm,
            "seconds": self.seconds,
            "regain": self._regain,
            "short": self._short,
            "ranks": self.watch.state(),
        }

    def advance(self) -> bool:
        """Make one step; False at the end, or where the flow stops."""
        if self.time >= self.end or self.stopped is not None:
            return False
        if len(self.trajectory) >= self.most:
            return self._stop(
                f"{self.most} steps were made up to {self.time:.6g}: the flow is stiff there{KINK}"
            )
        try:
            return self._advance()
        except Unsolved as reason:
            return self._unsolved(reason)

    def _advance(self) -> bool:
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
        self._look(dense, before, stop, solver.y)
        now = time.process_time()
        self.seconds.append(self.seconds[-1] + now - self._since)
        self._since = now
        self.counts.append(self.field.evaluations)
        if self._solver is not None:  # its step is made as a whole
            self.trajectory.append(dense, before, stop, solver.y)
            self.time, self._step = stop, float(solver.h_abs)
            self._short = self._short + 1 if stop - before < SHORT * (self.end - before) else 0
            if self._short >= OFTEN and self.field.alpha:
                return self._singular(solver.y)
        return True

    def _begin(self, state: np.ndarray) -> None:
        field = self.field
        if self._norm is None:
            self._norm = field.norm(state)
        if field.alpha and field.rank is None:
            range = field.range(state)
            field.rank = range.rank
            if isinstance(range, SpectralRange) and range.rank < field.map.count:
                ratio = self._ratio(range, range.rank)
                self._record(0.0, field.map.count, range.rank, range.lost, ratio)
            self.watch.look(0.0, range)
        size = len(state)
        atol = np.full(size, self.tolerance / math.sqrt(size))
        atol[: field.map.parameters] /= self._norm
        remaining = self.end - self.time
        first = None if self._step is None else min(self._step, remaining)
        self._solver = self.method(
            field, self.time, state, self.end, rtol=RTOL, atol=atol, first_step=first
        )
        if field.unsolved is not None and not np.isfinite(self._solver.f).all():
            raise field.unsolved

    def _look(self, dense: DenseOutput, start: float, stop: float, state: np.ndarray) -> None:
        """Record what rank does in a step; where it changes, the step ends and the solver with it."""
        field = self.field
        if not field.alpha:
            return
        range = field.range(state)
        rank = range.rank
        change, which = None, 0
        if isinstance(range, SpectralRange):
            lost, regained = self._gaps(range)
            if lost < 0 or regained > 0:
                which = 0 if lost < 0 else 1
                change = self._time_of_change(dense, start, stop, rank, which)
        until = stop if change is None else change
        samples = sorted({pair for pair in field.ratios if start <= pair[0] <= until})
        field.ratios = [pair for pair in field.ratios if pair[0] >= stop]

        def theta(time: float) -> Tensor:
            return field.theta(dense(time))

        barrier = self.watch.look_within(
            samples,
            lambda time: field.factorisations.ratio(theta(time), rank),
            lambda time: field.factorisations.spectral(theta(time), rank),
            lambda time: field.objective.gradient(field.map.outputs(theta(time)).detach()),
        )
        if barrier is not None:
            change, which = barrier, 0
        if change is None:
            self.watch.look(stop, range)
            return
        stop, state = change, state if change == stop else dense(change)
        range = field.factorisations.spectral(field.theta(state))
        if which == 0:
            after = min(range.rank, rank - 1)
            directions, ratio = range.left.T[after:rank], self._ratio(range, after)
        else:
            after = rank + 1
            directions, ratio = range.left.T[rank:after], self._ratio(range, rank)
        self._record(stop, rank, after, directions, ratio)
        self.trajectory.append(dense, start, stop, state)
        self.time, self._step, self._solver = stop, None, None
        field.rank = after

    def _time_of_change(
        self, dense: DenseOutput, start: float, stop: float, rank: int, which: int
    ) -> float:
        field = self.field

        def gap(time: float) -> float:
            range = field.factorisations.spectral(field.theta(dense(time)), rank)
            return self._gaps(range)[which]

        with suppress(ValueError):  # no sign change: the step began beyond the limit
            return brentq(gap, start, stop, xtol=1e-12 * (stop - start), rtol=1e-13)
        return stop

    def _gaps(self, range: SpectralRange) -> tuple[float, float]:
        """By how much the smallest kept value (negative: lost) and the largest other exceed their limits."""
        r, rcond = range.rank, self.field.factorisations.rcond
        ratios = (range.values / range.values[0]).tolist()
        lost = ratios[r - 1] / rcond - 1 if r else 1.0
        regained = ratios[r] / self._regain - 1 if r < len(ratios) else -1.0
        return lost, regained

    def _singular(self, state: np.ndarray) -> bool:
        """Steps shrink to nothing: drop the smallest singular value, which the velocity divides by."""
        field = self.field
        if field.unsolved is not None:
            return self._unsolved(field.unsolved)
        rank, why = field.rank or 0, f"no step is short enough at {self.time:.6g}{KINK}"
        if rank and not field.factorisations.dense:
            range = field.range(state)
            event = self._record(self.time, rank, rank, range.weakest[None], range.ratio)
            return self._stop(f"{why}; this was {event}")
        if not rank:
            return self._stop(why)
        before = field.factorisations.spectral(field.theta(state), rank)
        ratio = self._ratio(before, rank - 1)
        self._record(self.time, rank, rank - 1, before.weakest[None], ratio)
        field.rank, self._solver, self._step, self._short = rank - 1, None, None, 0
        self._regain = max(self._regain, REGAIN * before.ratio)
        return self.stopped is None

    def _unsolved(self, reason: Unsolved) -> bool:
        """Stop where no velocity is found; at the start there is nothing to stop with."""
        if not len(self.trajectory):
            raise reason
        if reason.direction is not None:
            count = self.field.map.count
            event = self.watch.record(self.time, count, count, reason.direction[None], reason.ratio)
            return self._stop(f"{reason} This was {event}")
        return self._stop(f"{reason} This was at {self.time:.6g}")

    def _stop(self, why: str) -> bool:
        self.stopped = why
        return False

    def _ratio(self, range: SpectralRange, place: int) -> float:
        """Of the singular value at a place to the largest; of the largest itself to that at the start."""
        if place or self._norm is None:
            return range.ratio_at(place)
        return float(range.values[0]) / self._norm

    def _record(
        self, time: float, before: int, after: int, directions: Tensor, ratio: float
    ) -> RankEvent:
        event = self.watch.record(time, before, after, directions, ratio)
        if len(self.watch.events) >= EVENTS:
            self._stop(f"{EVENTS} changes of rank up to {time:.6g}: the flow slides{KINK}")
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
