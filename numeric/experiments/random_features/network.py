r"""Networks $f(x) = m^{-1/2}\sum_i c_i\,[a_i x - b_i]_+$ with random hidden units that are not trained.

Units are homogeneous, so that a kernel depends on the directions of the pairs (a, b) and their mean
squared lengths only. That leaves an integral over directions, which the midpoint rule gives to O(1/m^2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from analytic.splines import Initialisation
from numeric.inputs import (
    ArrayLike,
    InputError,
    fraction,
    positive,
    require_float_dtype,
    require_seed,
    resolve,
    values_on_a_line,
    whole,
)
from numeric.progress import progress_bar
from numeric.splines.law import parameters

__all__ = [
    "WIDE", "FeatureLaw", "Independent", "RandomFeatureNetwork", "RandomFeatures", "Stratified",
    "distinct", "samples",
]  # fmt: skip

BLOCK = 2**23  # features held at once
WIDE = {"dtype": torch.float64, "device": "cpu"}  # where units are drawn, for any device and dtype
Units = tuple[Tensor, Tensor]  # slopes a (m,) and biases b (m,)


@dataclass(frozen=True)
class FeatureLaw:
    """How (a, b) is drawn, and a grid of m midpoints over its directions, m a multiple of `pieces`."""

    draw: Callable[..., Units]
    grid: Callable[..., Units]
    pieces: int = 1


def _uniform(m: int, generator: torch.Generator, A: float, B: float) -> Units:
    a, b = 2 * torch.rand(2, m, generator=generator, **WIDE) - 1
    return A * a, B * b


def _signs(m: int, generator: torch.Generator, B: float) -> Units:
    a, b = _uniform(m, generator, 1, B)
    return torch.where(a < 0, -torch.ones_like(a), 1), b


def _onesided(m: int, generator: torch.Generator) -> Units:
    return torch.ones(m, **WIDE), torch.rand(m, generator=generator, **WIDE)


def _normal(m: int, generator: torch.Generator, sa: float, sb: float) -> Units:
    a, b = torch.randn(2, m, generator=generator, **WIDE)
    return sa * a, sb * b


def _middles(m: int) -> Units:
    """m ones, and the midpoints of m equal cells of [-1, 1]."""
    return torch.ones(m, **WIDE), (2 * torch.arange(m, **WIDE) + 1 - m) / m


def _two_sides(m: int, B: float) -> Units:
    one, t = _middles(m // 2)
    return torch.cat([one, -one]), B * torch.cat([t, t])


def _four_sides(m: int, A: float, B: float) -> Units:
    """Cones over equal parts of a side have equal areas, and E[r^2] is half of that on the side."""
    one, t = _middles(m // 4)
    a, b = torch.cat([one, -one, t, t]), torch.cat([t, t, one, -one])
    return A * a / math.sqrt(2), B * b / math.sqrt(2)


def _circle(m: int, sa: float, sb: float) -> Units:
    angle = math.pi * _middles(m)[1]
    return math.sqrt(2) * sa * angle.cos(), math.sqrt(2) * sb * angle.sin()


LAWS = {
    "signs": FeatureLaw(_signs, _two_sides, 2),
    "uniform": FeatureLaw(_uniform, _four_sides, 4),
    "gaussian": FeatureLaw(_normal, _circle),
    "onesided": FeatureLaw(_onesided, lambda m: (_middles(m)[0], (1 + _middles(m)[1]) / 2)),
}


@dataclass(frozen=True)
class Independent:
    """Every unit drawn by itself: kernels are off by O(m^(-1/2)).

    One way for `RandomFeatures` to sample its units (a, b), beside `Stratified`; any m is accepted.

    >>> from analytic.splines import INITIALISATIONS
    >>> units = RandomFeatures(INITIALISATIONS["onesided"], {}, m=10_000, device="cpu")
    >>> abs(units.kernel([0.5], [1.0]).item() - 5 / 48) < 0.01  # the integral of [0.5 - b]_+ [1 - b]_+
    True
    """

    def units(self, law: FeatureLaw, m: int, seed: int, values: Mapping[str, float]) -> Units:
        return law.draw(m, torch.Generator().manual_seed(seed), **values)


@dataclass(frozen=True)
class Stratified:
    """Midpoints of equal parts of the law's directions, whatever the seed: O(m^(-2)).

    Biases of a = 1 and of a = -1 for signs, biases for onesided, the sides of the rectangle for
    uniform and the angle for gaussian; lengths are replaced by their root mean square.
    `RandomFeatures` refuses an m that is no multiple of the number of parts: 2 for signs, 4 for uniform.

    >>> from analytic.splines import INITIALISATIONS
    >>> units = RandomFeatures(INITIALISATIONS["onesided"], {}, 100, sampling=Stratified(), device="cpu")
    >>> abs(units.kernel([0.5], [1.0]).item() - 5 / 48) < 1e-4  # the integral of [0.5 - b]_+ [1 - b]_+
    True
    """

    def units(self, law: FeatureLaw, m: int, seed: int, values: Mapping[str, float]) -> Units:
        if m % law.pieces:
            more = f"take m = {m + -m % law.pieces}, or Independent()"
            raise InputError(f"m = {m} is no multiple of {law.pieces}, as this grid needs: {more}.")
        return law.grid(m, **values)


@dataclass(frozen=True)
class RandomFeatures:
    """The hidden layer: m units of an initialisation, whose parameters have these values.

    initialisation: signs, uniform, gaussian or onesided of analytic.splines. values: a number for each of its
    parameters. sampling: Independent() or Stratified(). Refused are other laws, and values out of range.

    >>> from analytic.splines import INITIALISATIONS
    >>> units = RandomFeatures(INITIALISATIONS["signs"], {"B": 1.0}, m=64, device="cpu")
    >>> units.fit([-0.5, 0.0, 0.5], [0.0, 1.0, 0.0]).predict([0.0, 0.5]).abs().round(decimals=6)
    tensor([1., 0.], dtype=torch.float64)
    """

    initialisation: Initialisation
    values: Mapping[str, float]
    m: int
    seed: int = 0
    sampling: Independent | Stratified = field(default_factory=Independent)
    device: str | torch.device = "auto"
    dtype: torch.dtype = torch.float64

    def __post_init__(self) -> None:
        if getattr(self.initialisation, "name", None) not in LAWS:
            raise InputError(f"initialisation {self.initialisation!r} is none of {list(LAWS)}.")
        if not isinstance(self.sampling, Independent | Stratified):
            raise InputError(f"sampling: Independent() or Stratified(), not {self.sampling!r}.")
        whole("m", self.m, 1)
        require_seed(self.seed)
        require_float_dtype(self.dtype)
        _ = self.units  # so that wrong parameters are refused here

    @cached_property
    def units(self) -> Units:
        law, values = LAWS[self.initialisation.name], parameters(self.initialisation, self.values)
        a, b = self.sampling.units(law, self.m, self.seed, values)
        place = resolve(self.device)
        return a.to(place, self.dtype), b.to(place, self.dtype)

    def features(self, x: ArrayLike) -> Tensor:
        """(n,) -> (n, m), with the factor m^(-1/2)."""
        a, b = self.units
        return torch.relu(values_on_a_line("x", x, a, 0)[:, None] * a - b) / math.sqrt(self.m)

    def kernel(self, x: ArrayLike, y: ArrayLike | None = None) -> Tensor:
        """(n,), (k,) -> (n, k): what tends to the random-feature kernel (23) as m grows."""
        return self.features(x) @ self.features(x if y is None else y).T

    def fit(self, x: ArrayLike, y: ArrayLike, ridge: float = 0.0) -> RandomFeatureNetwork:
        """The least |c| among those that interpolate (22), or the least |f(x) - y|^2 + ridge |c|^2.

        x, y: samples, (n,) each, two at least. Refused are two targets at one x without a ridge, and more
        samples than the units can interpolate.
        """
        x, y = samples(x, y, self.units[0])
        positive("ridge", ridge, zero=True)
        x, y = (x, y) if ridge else distinct(x, y)
        features = self.features(x)
        u, s, vt = torch.linalg.svd(features, full_matrices=False)
        nonzero = s > torch.finfo(s.dtype).eps * max(len(x), self.m) * s[0]
        u, s, vt = u[:, nonzero], s[nonzero], vt[nonzero]
        c = (y @ u / (s + ridge / s)) @ vt
        missed = (features @ c - y).norm()
        if ridge == 0 and (self.m < len(x) or missed > torch.finfo(s.dtype).eps ** 0.5 * y.norm()):
            problem = f"{self.m} units, of rank {len(s)} here, cannot interpolate {len(x)} points"
            raise InputError(f"{problem}: take more units, other points, or a ridge.")
        return RandomFeatureNetwork(self, c)

    def train(
        self, x: ArrayLike, y: ArrayLike, steps: int, momentum: float = 0.0, progress: bool = True
    ) -> RandomFeatureNetwork:
        """Gradient descent on c alone from c = 0, which is delta = -infinity of section 3.

        The rate is (1 + sqrt(momentum))^2 / L, with L the largest curvature of the loss
        1/2 sum |f - y|^2: 1 / L without momentum, and the best one for the best momentum.
        """
        x, y = samples(x, y, self.units[0])
        whole("steps", steps, 1)
        features = self.features(x)
        curvature = torch.linalg.matrix_norm(features, 2).item() ** 2
        fraction("momentum", momentum, zero=True)
        if not curvature > 0:
            raise InputError(
                "No unit is active at any of the points: take x where units are active."
            )
        c = torch.zeros_like(features[0]).requires_grad_()
        rate, losses = (1 + math.sqrt(momentum)) ** 2 / curvature, []
        optimizer = torch.optim.SGD([c], lr=rate, momentum=momentum)
        for _ in progress_bar(range(steps), of="steps", show=progress):
            optimizer.zero_grad()
            loss = ((features @ c - y) ** 2).sum() / 2
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return RandomFeatureNetwork(self, c.detach(), torch.stack(losses))


@dataclass(frozen=True, eq=False)
class RandomFeatureNetwork:
    """Random units with a readout; if it was trained, with the loss before each step."""

    hidden: RandomFeatures
    coefficients: Tensor  # (m,)
    losses: Tensor | None = None  # (steps,)

    def predict(self, x: ArrayLike) -> Tensor:
        """(n,) -> (n,)."""
        x = values_on_a_line("x", x, self.coefficients, 0)
        parts = x.split(max(1, BLOCK // self.hidden.m))
        return torch.cat([self.hidden.features(part) @ self.coefficients for part in parts])

    @property
    def norm(self) -> Tensor:
        """|c|, which tends to the norm of the interpolant in the kernel's space."""
        return self.coefficients.norm()


def samples(x: ArrayLike, y: ArrayLike, like: Tensor) -> tuple[Tensor, Tensor]:
    """Points and targets, two at least and as many of either."""
    x, y = values_on_a_line("x", x, like, 2), values_on_a_line("y", y, like, 2)
    if len(x) != len(y):
        raise InputError(f"{len(x)} points and {len(y)} targets were given: give as many.")
    return x, y


def distinct(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Points in order, each once; one that occurs twice must have one target."""
    points, place = torch.unique(x, return_inverse=True)
    targets = torch.empty_like(points).index_copy(0, place, y)
    if (wrong := targets[place] != y).any():
        where = f"x = {x[wrong][0].item()} has different targets"
        raise InputError(f"{where}, as no function can: average them, or use a ridge.")
    return points, targets
