r"""The Ricci scalar of maps with many inputs, estimated without bias from random directions.

With u and v independent and of the law $N(0, g^{-1})$,
$R = E[\langle PH(u,u), PH(v,v)\rangle - |PH(u,v)|^2]$, and each $H(u, v)$ takes one pass in forward mode over
forward mode: the Jacobian is needed, but none of the d (d + 1)/2 second derivatives one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from numeric.estimate import Estimate
from numeric.geometry.derivatives import BLOCK, along, along_two, bent_chunks, jacobian, told
from numeric.geometry.gauss_equation import normal
from numeric.geometry.kinks import creased_layers, refuse_creases
from numeric.geometry.ricci import Ricci, enough, immersed, in_frame, within_range
from numeric.inputs import whole
from numeric.models.feature_map import FeatureMap, Opened
from numeric.models.repaired_operations import Composed
from numeric.models.saturating_activations import SURVIVING

MILD = 1e4  # condition up to which a projection by QR leaves no more rounding than it may


def ricci_estimate(
    features: Any,
    x: Tensor,
    layer: str | None = None,
    probes: int = 256,
    seed: int = 0,
    progress: bool = True,
) -> Ricci:
    """At points (n, ...), with the standard error of the mean over pairs of directions.

    It falls like probes^-1/2, and starts at about the size of the second fundamental form squared.
    """
    probes, chosen = whole("probes", probes, 2), FeatureMap.of(features, layer)
    generator = torch.Generator().manual_seed(whole("seed", seed, 0))
    with chosen.on(x) as f:
        refuse_creases(creased_layers(f, chosen.module))  # those of the map, not of SURVIVING
        enough(f.count, f.points.shape[1])
        with Composed(SURVIVING):
            held = bent_chunks(f, f.count * (f.points.shape[1] + probes))
            parts = [_estimated(f, points, probes, generator) for points in told(held, progress)]
    value, stderr, condition, rank = (torch.cat(part) for part in zip(*parts, strict=True))
    immersed(rank, x)
    within_range(value)
    kind = {"dtype": x.dtype}
    return Ricci(value.to(**kind), condition.to(**kind), rank, stderr.to(**kind))


def _estimated(
    f: Opened, x: Tensor, probes: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    m, d = x.shape
    space = _by_qr(f, x)
    if not (space.condition <= min(MILD, 1 / (max(f.count, d) * f.epsilon))).all():
        space = _by_frames(f, x)
    if (space.rank < d).any():
        nothing = torch.full_like(space.condition, torch.nan)
        return nothing, nothing, nothing, space.rank
    # Drawn on the CPU, so that all devices see the same directions.
    draws = torch.randn(m, 2, probes, d, generator=generator, dtype=torch.float64).to(x.device)
    u, v = (draws @ space.axes[:, None]).unbind(1)
    pairs = ((u, u), (v, v), (u, v))
    uu, vv, uv = (space.off(_second(f, x, *pair)) for pair in pairs)
    found = Estimate.of(((uu * vv).sum(-1) - uv.square().sum(-1)).T)
    return found.mean, found.stderr, space.condition, space.rank


@dataclass(frozen=True, eq=False)
class _Space:
    """Axes on which the metric is the unit matrix, and what takes vectors (m, k, p) off the tangent space."""

    axes: Tensor  # (m, d, d), the rows
    off: Callable[[Tensor], Tensor]
    condition: Tensor
    rank: Tensor


def _by_qr(f: Opened, x: Tensor) -> _Space:
    Q, R = torch.linalg.qr(jacobian(f, x).mT)  # (m, p, d), (m, d, d)
    singular = torch.linalg.svdvals(R)
    axes = torch.linalg.solve_triangular(R, torch.eye(x.shape[1]).to(R), upper=True).mT
    full = torch.full_like(singular[:, 0], x.shape[1], dtype=torch.long)
    return _Space(axes, lambda H: H - H @ Q @ Q.mT, singular[:, 0] / singular[:, -1], full)


def _by_frames(f: Opened, x: Tensor) -> _Space:
    """Much slower at many inputs, and right at any condition number that `ricci_scalar` is right at."""
    framed = in_frame(f, x)
    picked, axes = framed.picked, framed.axes.to(x.dtype)
    if (picked.rank < x.shape[1]).any():
        return _Space(axes, torch.zeros_like, framed.condition, picked.rank)
    J = along(f, *_flat(x, axes)).double().unflatten(0, axes.shape[:2])
    inverse = torch.linalg.inv(torch.linalg.cholesky(J @ J.mT))  # close to the unit matrix
    tangents = inverse @ J
    return _Space(
        inverse @ axes.double(), lambda H: normal(tangents, H, picked.rows), framed.condition, picked.rank
    )  # fmt: skip


def _second(f: Opened, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """H(u, v): (m, d), twice (m, k, d) -> (m, k, p)."""
    at, u = _flat(x, u)
    parts = (part.split(max(1, BLOCK // f.count)) for part in (at, u, _flat(x, v)[1]))
    H = torch.cat([along_two(f, *some)[1] for some in zip(*parts, strict=True)])
    return H.double().unflatten(0, (len(x), -1))


def _flat(x: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
    """Points and directions (m, k, d), one by one."""
    at = x.repeat_interleave(directions.shape[1], 0)
    return at, directions.flatten(0, 1).to(x.dtype)
