r"""The Ricci scalar of maps with many inputs, estimated without bias from random directions.

With independent u and v drawn from $N(0, g^{-1})$,
$R = E[\langle PH(u,u), PH(v,v)\rangle - |PH(u,v)|^2]$, and each $H(u, v)$ takes one pass in forward mode over
forward mode. The Jacobian is needed, but not all d (d + 1)/2 second derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.estimate import Estimate
from numeric.geometry.derivatives import (
    BLOCK,
    along,
    along_two,
    chunks_for_second_derivatives,
    jacobian,
)
from numeric.geometry.gauss_equation import normal_part
from numeric.geometry.kinks import layers_with_kinks, require_no_kinks
from numeric.geometry.ricci import (
    Ricci,
    require_finite,
    require_full_rank,
    require_wide_layer,
    whitening_frame,
)
from numeric.inputs import ArrayLike, as_numbers, require_seed, whole
from numeric.models.model import EvaluatedMap, Model, ModelLike
from numeric.models.repaired_operations import ReplacedOperations
from numeric.models.saturating_activations import SATURATION_SAFE
from numeric.progress import progress_bar

__all__ = ["ricci_estimate"]

MAX_QR_CONDITION = 1e4  # of the Jacobian, above which projection by QR is too inaccurate


def ricci_estimate(
    model: ModelLike,
    x: ArrayLike,
    layer: str | None = None,
    probes: int = 256,
    seed: int = 0,
    progress: bool = True,
) -> Ricci:
    r"""The Ricci scalar of maps with many inputs, a mean over pairs of random directions.

    $R = E[\langle PH(u,u), PH(v,v)\rangle - |PH(u,v)|^2]$ with u and v from $N(0, g^{-1})$. The standard
    error falls like probes^-1/2, from about the squared norm of the second fundamental form.

    Model, points x (n, ...) and layer are those of `ricci_scalar`, and so is what is refused; `probes` is
    the number of pairs, at least 2, and the seed fixes them. Returned are values, standard errors,
    condition numbers and ranks, (n,) each.

    >>> estimate = ricci_estimate(lambda x: torch.cat([x, x[:, :1] ** 2], 1), [[0.3, -0.2]], probes=4)
    >>> estimate.value.shape, estimate.stderr.shape
    (torch.Size([1]), torch.Size([1]))
    """
    probes, opened, x = whole("probes", probes, 2), Model.of(model, layer), as_numbers("x", x)
    generator = torch.Generator().manual_seed(require_seed(seed))
    with opened.on(x) as f:
        # before SATURATION_SAFE, whose operations would be suspected
        require_no_kinks(layers_with_kinks(f, opened.module))
        require_wide_layer(f.count, f.points.shape[1])
        with ReplacedOperations(SATURATION_SAFE):
            chunks = chunks_for_second_derivatives(f, f.count * (f.points.shape[1] + probes))
            parts = [
                _estimate(f, points, probes, generator)
                for points in progress_bar(chunks, of="chunks of points", show=progress)
            ]
    value, stderr, condition, rank = (torch.cat(part) for part in zip(*parts, strict=True))
    require_full_rank(rank, x)
    require_finite(value)
    return Ricci(value.to(x.dtype), condition.to(x.dtype), rank, stderr.to(x.dtype))


def _estimate(
    f: EvaluatedMap, x: Tensor, probes: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    m, d = x.shape
    tangent_space = _by_qr(f, x)
    if not (
        tangent_space.condition <= min(MAX_QR_CONDITION, 1 / (max(f.count, d) * f.epsilon))
    ).all():
        tangent_space = _by_frames(f, x)
    if (tangent_space.rank < d).any():
        nan = torch.full_like(tangent_space.condition, torch.nan)
        return nan, nan, nan, tangent_space.rank
    # Drawn on the CPU, so that all devices use the same directions.
    draws = torch.randn(m, 2, probes, d, generator=generator, dtype=torch.float64).to(x.device)
    u, v = (draws @ tangent_space.axes[:, None]).unbind(1)
    pairs = ((u, u), (v, v), (u, v))
    uu, vv, uv = (tangent_space.project_off(_hessian_along(f, x, *pair)) for pair in pairs)
    estimate = Estimate.of(((uu * vv).sum(-1) - uv.square().sum(-1)).T)
    return estimate.mean, estimate.stderr, tangent_space.condition, tangent_space.rank


@dataclass(frozen=True, eq=False)
class _TangentSpace:
    """Axes in which the metric is the identity, and the projection (m, k, p) to the normal space."""

    axes: Tensor  # (m, d, d), the rows
    project_off: Callable[[Tensor], Tensor]
    condition: Tensor
    rank: Tensor


def _by_qr(f: EvaluatedMap, x: Tensor) -> _TangentSpace:
    Q, R = torch.linalg.qr(jacobian(f, x).mT)  # (m, p, d), (m, d, d)
    singular = torch.linalg.svdvals(R)
    axes = torch.linalg.solve_triangular(R, torch.eye(x.shape[1]).to(R), upper=True).mT
    full = torch.full_like(singular[:, 0], x.shape[1], dtype=torch.long)
    return _TangentSpace(axes, lambda H: H - H @ Q @ Q.mT, singular[:, 0] / singular[:, -1], full)


def _by_frames(f: EvaluatedMap, x: Tensor) -> _TangentSpace:
    """Much slower with many inputs, but as accurate as `ricci_scalar` at large condition numbers."""
    frame = whitening_frame(f, x)
    pivots, axes = frame.pivots, frame.axes.to(x.dtype)
    if (pivots.rank < x.shape[1]).any():
        return _TangentSpace(axes, torch.zeros_like, frame.condition, pivots.rank)
    J = along(f, *_repeated(x, axes)).double().unflatten(0, axes.shape[:2])
    inverse = torch.linalg.inv(torch.linalg.cholesky(J @ J.mT))  # close to the identity
    tangents = inverse @ J
    return _TangentSpace(
        inverse @ axes.double(),
        lambda H: normal_part(tangents, H, pivots.features),
        frame.condition,
        pivots.rank,
    )


def _hessian_along(f: EvaluatedMap, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """H(u, v): (m, d), twice (m, k, d) -> (m, k, p)."""
    at, u = _repeated(x, u)
    parts = (part.split(max(1, BLOCK // f.count)) for part in (at, u, _repeated(x, v)[1]))
    H = torch.cat([along_two(f, *block)[1] for block in zip(*parts, strict=True)])
    return H.double().unflatten(0, (len(x), -1))


def _repeated(x: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
    """Each point repeated k times, and directions (m, k, d) flattened to match: (m k, d) each."""
    at = x.repeat_interleave(directions.shape[1], 0)
    return at, directions.flatten(0, 1).to(x.dtype)
