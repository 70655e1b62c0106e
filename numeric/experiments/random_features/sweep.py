r"""How fast interpolants of finitely many random units approach the kernel interpolant.

To first order $f_m - f$ is a mean over units of $h\,g$, with $h(x)$ what a unit leaves
of itself at x when it is interpolated at the data, and $g = \sum_j\alpha_j\phi(x_j)$. So over independent
units $m\,E|f_m - f|^2 \to E[h^2 g^2]$, which is an integral over the law, and no fit is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from analytic.splines import Initialisation
from numeric.estimate import Estimate, Slope, power_law
from numeric.experiments.random_features.network import (
    WIDE,
    Independent,
    RandomFeatures,
    Stratified,
    distinct,
    samples,
)
from numeric.inputs import (
    ArrayLike,
    InputError,
    seed_for,
    values_on_a_line,
    whole,
    whole_numbers,
)
from numeric.progress import progress_bar
from numeric.splines.law import parameters

__all__ = ["DenseInterpolant", "Errors", "FeatureSweep"]

GOLDEN = (math.sqrt(5) - 1) / 2
FINE = 2**12  # units that stand for the law in an integral over it
FOURTH = {"uniform": 4 / 3, "gaussian": 2}  # E[r^4] / E[r^2]^2, where lengths r of (a, b) vary


@dataclass(frozen=True, eq=False)
class DenseInterpolant:
    """The interpolant of least norm in the kernel's space, (24), for few points: O(n^3), float64 on the host.

    x, y: samples, (n,) each, two at least. Refused are points that the kernel does not tell apart.

    >>> from analytic.splines import INITIALISATIONS
    >>> exact = DenseInterpolant(INITIALISATIONS["signs"], {"B": 1.0}, [-0.5, 0.0, 0.5], [0.0, 1.0, 0.0])
    >>> exact.predict([0.0]).round(decimals=9)
    tensor([1.], dtype=torch.float64)
    """

    initialisation: Initialisation
    values: Mapping[str, float]
    x: ArrayLike  # (n,)
    y: ArrayLike  # (n,)

    @cached_property
    def data(self) -> tuple[Tensor, Tensor]:
        """Points in order and their targets, (n,) each."""
        return distinct(*samples(self.x, self.y, torch.empty(0, **WIDE)))

    @cached_property
    def coefficients(self) -> Tensor:
        """(n,): of the kernel's sections at the points."""
        return self.solve(self.data[1])

    @property
    def norm(self) -> Tensor:
        """In the kernel's space."""
        return (self.coefficients @ self.data[1]).sqrt()

    def kernel(self, x: Tensor, y: Tensor) -> Tensor:
        """(n,), (k,) -> (n, k)."""
        x, y = torch.broadcast_tensors(x[:, None], y[None])
        return self.initialisation.rf.torch(
            x=x, y=y, **parameters(self.initialisation, self.values)
        )

    def predict(self, x: ArrayLike) -> Tensor:
        """(n,) -> (n,)."""
        points = values_on_a_line("x", x, self.coefficients, 0)
        return self.kernel(points, self.data[0]) @ self.coefficients

    def solve(self, right: Tensor) -> Tensor:
        """The Gram matrix's inverse times a vector or matrix."""
        return torch.linalg.solve(self._gram, right)

    @cached_property
    def _gram(self) -> Tensor:
        gram = self.kernel(self.data[0], self.data[0])
        values = torch.linalg.eigvalsh(gram)
        if values[0] <= len(gram) * torch.finfo(gram.dtype).eps * values[-1]:
            raise InputError(
                f"The kernel does not tell these {len(gram)} points apart in float64: spread them, "
                "or place them where the law has its knots."
            )
        return gram


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors relative to the kernel interpolant on a grid, for each width over its draws."""

    worst: dict[int, Estimate]  # the largest one
    square: dict[int, Estimate]  # their mean square
    constant: float | None  # what sqrt(m) rms tends to for independent units

    @property
    def rms(self) -> dict[int, float]:
        """Over the grid and the draws."""
        return {m: estimate.mean.sqrt().item() for m, estimate in self.square.items()}

    def worst_slope(self) -> Slope:
        """How the largest error falls with the number of units."""
        return _slope(self.worst, 1)

    def rms_slope(self) -> Slope:
        """How the root mean square error falls with the number of units."""
        return _slope(self.square, 0.5)


@dataclass(frozen=True, eq=False)
class FeatureSweep:
    """Interpolants of random units of growing number; stratified units are one draw for each.

    initialisation, values: as for RandomFeatures. x, y: samples, (n,) each. widths: numbers of units, at
    least n. draws: networks of each, 2 at least. `points` says where to compare; if empty, at 512 points
    between the data that no grid repeats. `run` returns the Errors relative to the kernel interpolant.

    >>> from analytic.splines import INITIALISATIONS
    >>> law, x, y = INITIALISATIONS["signs"], [-0.5, 0.5], [1.0, 0.0]
    >>> sweep = FeatureSweep(law, {"B": 1.0}, x, y, widths=(64,), draws=3, device="cpu")
    >>> list(sweep.run(progress=False).rms)
    [64]
    """

    initialisation: Initialisation
    values: Mapping[str, float]
    x: ArrayLike  # (n,)
    y: ArrayLike  # (n,)
    widths: tuple[int, ...] = (256, 512, 1024, 2048, 4096)
    draws: int = 100
    seed: int = 0
    sampling: Independent | Stratified = field(default_factory=Independent)
    points: tuple[float, ...] = ()
    device: str | torch.device = "auto"
    dtype: torch.dtype = torch.float64

    def __post_init__(self) -> None:
        whole("draws", self.draws, 2)
        whole("seed", self.seed, 0)
        for m in whole_numbers("widths", self.widths, len(self._exact.data[0])):
            self._features(m, 0)

    @cached_property
    def _exact(self) -> DenseInterpolant:
        return DenseInterpolant(self.initialisation, self.values, self.x, self.y)

    @cached_property
    def grid(self) -> Tensor:
        """Where interpolants are compared."""
        x = self._exact.data[0]
        if self.points:
            return values_on_a_line("points", self.points, x)
        # Equal steps would meet equal cells of biases in step, and so miss the largest errors.
        return x[0] + (x[-1] - x[0]) * (GOLDEN * torch.arange(1, 513, **WIDE) % 1)

    def run(self, progress: bool = True) -> Errors:
        """Fit all networks, and compare them with the kernel interpolant."""
        exact = self._exact.predict(self.grid)
        draws = self.draws if isinstance(self.sampling, Independent) else 1
        worst: dict[int, Estimate] = {}
        square: dict[int, Estimate] = {}
        total = draws * len(self.widths)
        with progress_bar(of="networks", show=progress, total=total) as bar:
            for m in self.widths:
                bar.set_postfix(width=m)
                off = torch.stack([self._off(m, k, exact, bar.update) for k in range(draws)])
                worst[m], square[m] = _over(off.abs().amax(1)), _over((off**2).mean(1))
        return Errors(worst, square, self.constant() if draws > 1 else None)

    def constant(self) -> float:
        """The limit of sqrt(m) rms over independent units."""
        x, t, a = self._exact.data[0], self.grid, self._exact.coefficients
        units = RandomFeatures(
            self.initialisation, self.values, FINE, sampling=Stratified(), device="cpu"
        )
        here, there = units.features(x), units.features(t)
        rest = there - self._exact.solve(self._exact.kernel(x, t)).T @ here
        fourth = FOURTH.get(self.initialisation.name, 1)
        return math.sqrt(fourth * FINE * ((rest * (a @ here)) ** 2).sum(1).mean())

    def _features(self, m: int, seed: int) -> RandomFeatures:
        kind = {"sampling": self.sampling, "device": self.device, "dtype": self.dtype}
        return RandomFeatures(self.initialisation, self.values, m, seed, **kind)

    def _off(self, m: int, draw: int, exact: Tensor, advance: Callable[[], object]) -> Tensor:
        network = self._features(m, seed_for(self.seed, m, draw)).fit(*self._exact.data)
        advance()
        return network.predict(self.grid).to(exact) - exact


def _slope(at: dict[int, Estimate], power: float) -> Slope:
    """The slope of a power of the means; its error includes their standard errors, as widths are few."""
    fitted = power_law(list(at), [e.mean.item() ** power for e in at.values()])
    u = torch.tensor(list(at), **WIDE).log()
    u = u - u.mean()
    noise = power * torch.stack([e.stderr / e.mean for e in at.values()])
    return Slope(fitted.value, max(fitted.stderr, ((u * noise).norm() / (u @ u)).item()))


def _over(draws: Tensor) -> Estimate:
    """The estimate from draws; a single, deterministic draw has no spread."""
    if len(draws) > 1:
        return Estimate.of(draws)
    return Estimate(draws[0], torch.zeros_like(draws[0]), 1)
