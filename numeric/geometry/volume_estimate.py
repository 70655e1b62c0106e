r"""Log volumes of maps whose Jacobian is too dear, estimated from random directions and products with it.

Each direction takes a few pairs of a vector-Jacobian and a Jacobian-vector product, and no Jacobian is ever
formed. The mathematics is in `lanczos_quadrature`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from numeric.estimate import Estimate
from numeric.geometry.derivatives import require_finite
from numeric.geometry.jacobians import graph, slope_along, tolerance
from numeric.geometry.lanczos_quadrature import Bidiagonal, Products, bidiagonalise
from numeric.inputs import ArrayLike, InputError, as_numbers, generator_for, whole
from numeric.models.memory import GIGABYTE, Meter
from numeric.models.model import EvaluatedMap, Model, ModelLike
from numeric.models.output_checks import check_first_derivative
from numeric.models.repaired_operations import ReplacedOperations
from numeric.models.saturating_activations import SATURATION_SAFE
from numeric.progress import progress_bar

__all__ = ["LogVolumeEstimate", "estimate_each", "log_volume_estimate"]

SHARE = 0.1  # of the standard error, below which more Lanczos steps are of no use
LEAST = 5  # steps from which it is estimated what more of them would take off
JUDGES = 16  # probes that decide when there are enough steps


@dataclass(frozen=True, eq=False)
class LogVolumeEstimate:
    """log sqrt(det g) at each point, a mean over random directions; see `log_volume_estimate`."""

    value: Tensor  # (n,), natural log; NaN where the rank is deficient
    stderr: Tensor  # (n,), of the mean over the directions
    bias: Tensor  # (n,), by how much `value` is too large because steps are few, estimated
    bound: Tensor  # (n,), of that bias, supposing that the rank is full
    rank: Tensor  # (n,), features that respond, or inputs that matter if these are fewer
    deficient: Tensor  # (n,), whether one more singular value is 0 to rounding
    full: Tensor  # (n,), whether none can be, at a risk of 1e-6
    steps: Tensor  # (n,), pairs of products for each direction

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each reason why some values are missing, or not sure."""
        n, lacking = len(self.value), int(self.deficient.sum())
        unknown = int((~self.full & ~self.deficient).sum())
        notes = []
        if lacking:
            notes.append(
                f"At {lacking} of {n} points the Jacobian lacks rank to rounding, and nothing is estimated: "
                "log_volume adds up its nonzero singular values there."
            )
        if unknown:
            notes.append(
                f"At {unknown} of {n} points {int(self.steps.max())} Lanczos steps do not exclude that the "
                "Jacobian lacks rank: the value supposes that it does not."
            )
        return tuple(notes)


def log_volume_estimate(
    model: ModelLike,
    x: ArrayLike,
    layer: str | None = None,
    probes: int = 16,
    steps: int = 100,
    seed: int = 0,
    memory: int = 2 * GIGABYTE,
    progress: bool = True,
) -> LogVolumeEstimate:
    r"""The log of the volume element from products with the Jacobian alone, where that is too dear.

    $\tfrac12 \mathrm{tr} \log J J^T$, or of $J^T J$ if there are more features than inputs, as a mean over
    random directions, each by stochastic Lanczos quadrature. The standard error is about the
    root of 2 k / probes, times the spread of the logs of the k singular values. An exact volume takes k
    products: with few features it is cheaper.

    `value` is a mean of upper bounds, which fall with each step. By how much it is still too large is
    estimated from what the last third of the steps took off, in proportion to the third before, as if the
    error were a power of their number; and it is bounded by Radau's rule, except for a risk of 1e-6. Steps
    end where the estimate is a tenth of the standard error, and at `steps`, or k, pairs of products.

    Model, points x (n, ...), layer and `memory` are those of `log_volume`; `probes` is the number of
    directions, at least 2, and the seed fixes them. All points have the same, so that differences between
    neighbours are surer than values. Features without any slope at a point, such as those of rectifiers that
    are off, are left out there, as `log_volume` does; other loss of rank is not estimated, but found: where
    singular values are below 32 epsilons of the model's dtype, relative to the largest. Returned are values,
    standard errors, estimates and bounds of the bias, ranks, whether they are deficient or full, and steps,
    (n,) each; `notes` says in words where a value is missing or not sure. Refused are what `log_volume`
    refuses, and maps that lack rank at all points.

    >>> polar = lambda x: x[:, :1] * torch.cat([x[:, 1:].cos(), x[:, 1:].sin()], 1)
    >>> result = log_volume_estimate(polar, [[1.0, 0.3]])  # all singular values are 1
    >>> (result.value.abs() < 1e-9).item(), (result.stderr < 1e-9).item()
    (True, True)
    """
    result = estimate_each(model, x, layer, probes, steps, seed, memory, progress)
    if result.deficient.all():
        raise InputError(
            f"The Jacobian lacks rank to rounding at all {len(result.value)} points, so that the log of its "
            "volume is -inf: take log_volume, which adds up the nonzero singular values."
        )
    return result


def estimate_each(
    model: ModelLike,
    x: ArrayLike,
    layer: str | None,
    probes: int,
    steps: int,
    seed: int,
    memory: int,
    progress: bool,
) -> LogVolumeEstimate:
    """As `log_volume_estimate`, for points that are some of many: they may all lack rank."""
    probes, steps = whole("probes", probes, 2), whole("steps", steps)
    whole("memory", memory)
    generator = generator_for("log_volume_estimate", whole("seed", seed, 0))
    opened, x = Model.of(model, layer), as_numbers("x", x)
    with opened.on(x) as f, ReplacedOperations(SATURATION_SAFE):
        size = min(f.count, f.points.shape[1])
        steps = min(steps, size)
        check_first_derivative(f, slope_along, f.points[:1])
        at_once = _directions_at_once(f, steps, memory)
        # Drawn on the CPU, so that all devices use the same directions.
        draws = torch.randn(probes, size, generator=generator, dtype=torch.float64)
        total = len(f.points) * probes * steps
        with progress_bar(of="pairs of products", show=progress, total=total) as bar:
            parts = []
            for points in f.points.split(max(1, at_once // probes)):
                parts.append(_estimate(f, points, draws, steps, at_once))
                bar.update(len(points) * probes * steps)
    joined = {
        field.name: torch.cat([getattr(part, field.name) for part in parts]).to(x.device)
        for field in fields(LogVolumeEstimate)
    }
    numbers = {k: v.to(x.dtype) if v.is_floating_point() else v for k, v in joined.items()}
    return LogVolumeEstimate(**numbers)


def _directions_at_once(f: EvaluatedMap, steps: int, memory: int) -> int:
    """How many directions at once fit into the budget, at one point or at several."""
    first = f.points[:1]
    try:
        with Meter() as meter:
            x, out = graph(f, first)
            torch.autograd.grad(out, x, torch.ones_like(out), retain_graph=True)
            slope_along(f, first, torch.ones_like(first))
    except RuntimeError as error:
        raise InputError(
            f"torch finds no way from the features back to the points ({str(error).splitlines()[0]}): write "
            "the map with differentiable torch operations, without detach, no_grad, rounding or numpy."
        ) from None
    vectors = (steps + 4) * (f.count + first.shape[1]) * _work_dtype(f).itemsize
    if meter.peak + vectors > memory:
        raise InputError(
            f"memory = {memory} bytes was given, but one random direction with {steps} Lanczos steps needs "
            f"{meter.peak + vectors}: give at least that, or fewer steps."
        )
    return memory // (meter.peak + vectors)


def _work_dtype(f: EvaluatedMap) -> torch.dtype:
    return torch.promote_types(f.points.dtype, torch.float32)


def _estimate(
    f: EvaluatedMap, x: Tensor, draws: Tensor, steps: int, at_once: int
) -> LogVolumeEstimate:
    """At as many points as all their probes fit into `at_once`, or at one with a few probes at a time."""
    row_tolerance, responding = tolerance(f), _responding(f, x)
    starts = draws.to(x.device, _work_dtype(f)) * responding[:, None]  # (n, probes, k)
    squares = starts.square().sum(2).double().cpu()
    size = responding.sum(1).cpu()

    def by_point(diagonal: Tensor, above: Tensor) -> Bidiagonal:
        require_finite(diagonal + above)
        one, other = (table.unflatten(0, (len(x), -1)) for table in (diagonal, above))
        return Bidiagonal(one, other, size[:, None], row_tolerance)

    def has_converged(diagonal: Tensor, above: Tensor) -> bool:
        first = by_point(diagonal, above).first(JUDGES)
        # No digits are left below the second, as where all singular values are equal.
        least = SHARE * first.spread().mean(1) / math.sqrt(len(draws))
        least = torch.maximum(least, size * row_tolerance)
        bias, _, _ = _bias(first, squares)
        return bool(((bias <= least) | first.deficient()).all())

    parts: list[Bidiagonal] = []
    for chunk in starts.split(max(1, at_once // len(x)), 1):
        products = _products(f, x.repeat_interleave(chunk.shape[1], 0))
        directions = torch.nn.functional.normalize(chunk.flatten(0, 1), dim=1)
        if not parts:
            part = by_point(
                *bidiagonalise(*products, directions, steps, row_tolerance, has_converged)
            )
            steps = part.diagonal.shape[-1]  # the first probes decide for all others
        else:
            part = by_point(*bidiagonalise(*products, directions, steps, row_tolerance))
        parts.append(part)
    diagonal, above = (
        torch.cat([getattr(part, name) for part in parts], 1) for name in ("diagonal", "above")
    )
    bidiagonal = Bidiagonal(diagonal, above, size[:, None], row_tolerance)
    deficient = bidiagonal.deficient()
    mean = Estimate.of(bidiagonal.gauss().T)
    bias, bound, full = _bias(bidiagonal, squares)
    value, stderr, bias, bound = (
        torch.where(deficient, math.nan, part) for part in (mean.mean, mean.stderr, bias, bound)
    )
    steps_taken = torch.full_like(size, steps)
    return LogVolumeEstimate(
        value, stderr, bias, bound, size, deficient, full & ~deficient, steps_taken
    )


def _responding(f: EvaluatedMap, x: Tensor) -> Tensor:
    """Which rows of the Jacobian, or columns if these are fewer, are not 0 at each point: (n, k).

    Those of a unit behind a rectifier that is off have slope 0 along every direction.
    """
    _, back = _products(f, x)
    generator = generator_for("responding")
    size = max(f.count, x.shape[1])
    cotangents = torch.randn(2, size, generator=generator, dtype=torch.float64).to(
        x.device, x.dtype
    )
    return torch.stack([back(v.expand(len(x), -1)) != 0 for v in cotangents]).any(0)


def _products(f: EvaluatedMap, x: Tensor) -> tuple[Products, Products]:
    """From the shorter side of the Jacobian at each row of x to the longer, and back."""
    points, out = graph(f, x)

    def transposed(cotangents: Tensor) -> Tensor:
        (result,) = torch.autograd.grad(out, points, cotangents.to(out.dtype), retain_graph=True)
        return result.to(cotangents.dtype)

    def forward(directions: Tensor) -> Tensor:
        return slope_along(f, x, directions.to(x.dtype)).to(directions.dtype)

    return (transposed, forward) if f.count <= x.shape[1] else (forward, transposed)


def _bias(rules: Bidiagonal, squares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of the mean of the upper bounds: estimated, bounded, and whether the rank is full: (n,) each."""
    probes, m = rules.diagonal.shape[1:]
    node = rules.lower_end(squares[:, :probes])
    upper = rules.gauss().mean(1)
    lower = rules.radau(torch.maximum(node, rules.floor)).mean(1)
    bound = torch.where(rules.complete(), 0, (upper - lower).clamp(min=0))
    if m < LEAST:
        return bound, bound, node > 0
    early, late = (rules.first(probes, part).gauss().mean(1) for part in (4 * m // 9, 2 * m // 3))
    ratio = ((late - upper) / (early - late)).clamp(min=2 / 3)
    left = (late - upper) * ratio / (1 - ratio)
    return torch.where((ratio < 1) & (left < bound), left.clamp(min=0), bound), bound, node > 0
