"""Gradient descent with a torch optimiser, whose limit at small rates is the flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from numeric.inputs import (
    ArrayLike,
    InputError,
    positive,
    require_instance,
    samples_on_a_line,
    whole,
)
from numeric.progress import progress_bar
from numeric.relu_dynamics.boosts import NeuronState, start
from numeric.relu_dynamics.gradient import Samples, gradient
from numeric.relu_dynamics.kernel import kernel
from numeric.relu_dynamics.neurons import Neurons, require_neurons
from numeric.relu_dynamics.rays import Rays
from numeric.relu_dynamics.trajectory import Trajectory
from numeric.runs.store import checkpoint, fingerprint

__all__ = [
    "Descent", "DescentProblem", "Divergence", "InterpolatedFrames", "SavedFrames", "TrainedLayers",
]  # fmt: skip

MOST_UNREAD = 100  # most losses left on the device before they are read
GROWTH = (
    100  # divergence: a loss this many times that of the start or of f = 0, whichever is larger
)


class TrainedLayers(Enum):
    """Which layers are trained, by the names of their parameters."""

    ALL = "abc"
    READOUT = "c"
    HIDDEN = "ab"


class Divergence(InputError):
    """The rate is too large: the loss grew without bound, or until every neuron was dead."""


@dataclass(frozen=True, eq=False)
class DescentProblem:
    """Samples from right to left with their targets, and which parameters are trained."""

    samples: Samples
    y: Tensor  # (s,)
    alpha: float
    trained: TrainedLayers

    def loss(self, parts: dict[str, Tensor]) -> Tensor:
        """The loss; its derivatives are stored in `.grad` of the trained parameters."""
        with torch.no_grad():
            derivatives = gradient(self.samples, self.y, **parts, alpha=self.alpha)
            for name in self.trained.value:
                parts[name].grad = getattr(derivatives, name)
            return (derivatives.residuals**2).sum() / 2

    def residuals(self, parts: Tensor) -> Tensor:
        return gradient(self.samples, self.y, *parts, alpha=self.alpha).residuals

    def bound(self, parts: Tensor) -> float:
        """The loss of these neurons or of f = 0, whichever is larger, and what rounding adds."""
        a, b, c = parts
        size = (c * torch.hypot(a, b)).sum() / self.alpha
        losses = (self.residuals(parts) ** 2).sum(), (self.y**2).sum()
        return torch.stack(losses).max().item() / 2 + torch.finfo(c.dtype).eps * size.item() ** 2

    def dead(self, parts: Tensor) -> bool:
        """Whether no neuron is active at any sample."""
        return bool((self.samples.patterns(*parts[:2]) % (2 * len(self.y)) == 0).all())

    def curvature(self, parts: Tensor) -> float:
        """The largest eigenvalue of the tangent kernel of the trained parameters."""
        rays = Rays(self.samples, self.alpha)
        state = start(rays, *parts)
        none = torch.zeros_like(state.c)
        if self.trained is TrainedLayers.READOUT:
            state = NeuronState(state.a, state.d, none, state.mode)
        if self.trained is TrainedLayers.HIDDEN:
            state = NeuronState(none, none, state.c, state.mode)
        return torch.linalg.eigvalsh(kernel(rays, state))[-1].item()


@dataclass(eq=False)
class SavedFrames:
    """The recorded part of a run: numbers of steps, parameters (3, m) and residuals (s,) after them."""

    steps: list[int] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    residuals: list[Tensor] = field(default_factory=list)

    def add(self, step: int, problem: DescentProblem, parts: dict[str, Tensor]) -> None:
        values = torch.stack([part.detach() for part in parts.values()])
        self.residuals.append(problem.residuals(values))
        self.values.append(values)
        self.steps.append(step)


@dataclass(frozen=True, eq=False)
class InterpolatedFrames:
    """Neurons at any time, by linear interpolation between recorded steps."""

    times: Tensor  # (k,)
    values: Tensor  # (k, 3, m)
    alpha: float

    def __call__(self, time: float) -> Neurons:
        last = len(self.times) - 1
        right = min(int(torch.searchsorted(self.times, time)), last)
        left = max(right - 1, 0)
        width = (self.times[right] - self.times[left]).item()
        share = (time - self.times[left].item()) / width if width else 0.0
        a, b, c = torch.lerp(self.values[left], self.values[right], share)
        return Neurons(a, b, c, self.alpha)


@dataclass(frozen=True, eq=False)
class Descent:
    """Steps of `optimizer(parameters, lr=rate)`; plain ones follow the flow, at time rate a step.

    x, y: samples, (s,) each, no x twice.
    neurons: at the start.
    rate, steps: the learning rate, and the number of updates.
    trained: TrainedLayers.ALL, or TrainedLayers.READOUT or TrainedLayers.HIDDEN alone.
    optimizer: a class or function that makes a torch optimiser from parameters and lr.
    frames: about how often neurons and residuals are recorded.

    `run` returns a Trajectory, which interpolates between recorded steps. A rate at which the loss
    diverges is refused with a Divergence, which says which rate to take.

    >>> neurons = Neurons.drawn(20, seed=0, device="cpu")
    >>> run = Descent([-0.5, 0.5], [1.0, -1.0], neurons, rate=0.1, steps=50).run(progress=False)
    >>> len(run.times), bool(run.losses[-1] < run.losses[0])
    (51, True)
    """

    x: ArrayLike  # (s,)
    y: ArrayLike  # (s,)
    neurons: Neurons
    rate: float
    steps: int
    trained: TrainedLayers = TrainedLayers.ALL
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD
    frames: int = 200

    def __post_init__(self) -> None:
        samples_on_a_line(self.x, self.y, require_neurons(self.neurons).a)
        positive("rate", self.rate)
        whole("steps", self.steps, 1)
        whole("frames", self.frames, 1)
        if not isinstance(self.trained, TrainedLayers):
            raise InputError(
                f"trained must be TrainedLayers.ALL, TrainedLayers.READOUT or TrainedLayers.HIDDEN, not "
                f"{self.trained!r}."
            )
        if not callable(self.optimizer):
            raise InputError(
                f"optimizer = {self.optimizer!r} was given, but a class or function that makes a torch "
                "optimiser from parameters and lr is needed, such as torch.optim.SGD."
            )

    def run(self, progress: bool = True, store: str | Path | None = None) -> Trajectory:
        """Train; with a file `store`, an interrupted run is resumed, with the same result."""
        x, y = samples_on_a_line(self.x, self.y, self.neurons.a)
        points, order = Samples.of(x)
        problem = DescentProblem(points, y[order], self.neurons.alpha, self.trained)
        parts = {name: getattr(self.neurons, name).clone() for name in "abc"}
        optimizer = self.optimizer([parts[name] for name in self.trained.value], lr=self.rate)
        require_instance(
            "what optimizer makes", optimizer, torch.optim.Optimizer, "torch.optim.SGD"
        )
        settings = (type(optimizer).__name__, optimizer.defaults, self.steps, self.frames)
        run = fingerprint(x, y, *parts.values(), self.neurons.alpha, self.trained, *settings)
        saved, file = SavedFrames(), checkpoint(store, run)
        if (stored := file.read(x.device)) is not None:
            saved = SavedFrames(**stored["frames"])
            for part, value in zip(parts.values(), saved.values[-1], strict=True):
                part.copy_(value)
            optimizer.load_state_dict(stored["optimizer"])

        def state() -> dict[str, Any]:
            return {"frames": vars(saved), "optimizer": optimizer.state_dict()}

        for _ in self._proceed(problem, parts, optimizer, saved, progress):
            file.write_when_due(state)
        file.write(state())
        residuals = torch.empty(len(saved.steps), len(x), dtype=x.dtype, device=x.device)
        residuals[:, order] = torch.stack(saved.residuals)
        times = self.rate * torch.tensor(saved.steps, dtype=torch.float64)
        return Trajectory(
            times, residuals, InterpolatedFrames(times, torch.stack(saved.values), problem.alpha)
        )

    def _proceed(
        self,
        problem: DescentProblem,
        parts: dict[str, Tensor],
        optimizer: torch.optim.Optimizer,
        saved: SavedFrames,
        progress: bool,
    ) -> Iterator[None]:
        """Train, and yield after each recorded step."""
        if not saved.steps:
            saved.add(0, problem, parts)
        bound, peak = problem.bound(saved.values[0]), 0.0
        losses: list[Tensor] = []  # not read yet: reading waits for the device
        every, first = max(1, self.steps // self.frames), saved.steps[-1] + 1
        left = range(first, self.steps + 1)
        kind = {"of": "steps", "show": progress, "initial": first - 1, "total": self.steps}
        for step in progress_bar(left, **kind):
            # By torch's stubs a closure returns a float; by its manual it returns the loss, a tensor.
            losses.append(optimizer.step(lambda: problem.loss(parts)))  # pyrefly: ignore[no-matching-overload]
            frame = step % every == 0 or step == self.steps
            if frame or len(losses) == MOST_UNREAD:
                numbers = torch.stack(losses).tolist()
                losses.clear()
                for k, loss in enumerate(numbers, step + 1 - len(numbers)):
                    if not loss <= GROWTH * bound:
                        raise self._divergence(
                            f"grown to {loss:.3g} by step {k}", saved, problem, bound
                        )
                peak = max(peak, *numbers)
            if frame:
                saved.add(step, problem, parts)
                if peak > bound and problem.dead(saved.values[-1]):
                    symptom = f"grown to {peak:.3g}, and by step {step} every neuron is dead"
                    raise self._divergence(symptom, saved, problem, bound)
                yield

    def _divergence(
        self, symptom: str, saved: SavedFrames, problem: DescentProblem, bound: float
    ) -> Divergence:
        """Advises the rate up to which descent does not leave a minimum, where the loss was below a bound."""
        low = [v for v, r in zip(saved.values, saved.residuals) if (r**2).sum() / 2 <= bound]
        stable = 2 / max(problem.curvature(values) for values in low)
        return Divergence(
            f"rate = {self.rate} diverges: the loss has {symptom}. Take a rate below {stable:.3g}, which is "
            "2 / the largest curvature before."
        )
