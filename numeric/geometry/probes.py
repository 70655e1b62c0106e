r"""The Ricci scalar of maps with many inputs, estimated without bias from random directions.

With u and v independent and of the law $N(0, g^{-1})$,
$R = E[\langle PH(u,u), PH(v,v)\rangle - |PH(u,v)|^2]$, and each $H(u, v)$ takes one pass in forward mode over
forward mode: the Jacobian is needed, but none of the d (d + 1)/2 second derivatives one by one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from analytic.domain import whole
from numeric.estimate import Estimate
from numeric.geometry.composed import Composed
from numeric.geometry.creases import creased_layers, refuse_creases
from numeric.geometry.derivatives import BLOCK, along_two, bent_chunks, jacobian, told
from numeric.geometry.feature_map import FeatureMap, Opened
from numeric.geometry.ricci import Ricci, enough, immersed
from numeric.geometry.surviving import SURVIVING


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
    with chosen.on(x) as f, Composed(SURVIVING):
        refuse_creases(creased_layers(f, chosen.module))
        enough(f.count, f.points.shape[1])
        held = bent_chunks(f, f.count * (f.points.shape[1] + probes))
        parts = [_estimated(f, points, probes, generator) for points in told(held, progress)]
    value, stderr, condition, rank = (torch.cat(part) for part in zip(*parts, strict=True))
    immersed(rank, x)
    kind = {"dtype": x.dtype}
    return Ricci(value.to(**kind), condition.to(**kind), rank, stderr.to(**kind))


def _estimated(
    f: Opened, x: Tensor, probes: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    m, d = x.shape
    Q, R = torch.linalg.qr(jacobian(f, x).mT)  # (m, p, d), (m, d, d)
    singular = torch.linalg.svdvals(R)
    rank = (singular > max(f.count, d) * f.epsilon * singular[:, :1]).sum(1)
    if (rank < d).any():
        nothing = torch.full_like(singular[:, 0], torch.nan)
        return nothing, nothing, nothing, rank
    # Drawn on the CPU, so that all devices see the same directions.
    draws = torch.randn(m, 2, probes, d, generator=generator, dtype=torch.float64).to(x.device)
    u, v = torch.linalg.solve_triangular(R[:, None], draws.mT, upper=True).mT.unbind(1)
    uu, vv, uv = (_normal(f, x, Q, *pair) for pair in ((u, u), (v, v), (u, v)))
    found = Estimate.of(((uu * vv).sum(-1) - uv.square().sum(-1)).T)
    return found.mean, found.stderr, singular[:, 0] / singular[:, -1], rank


def _normal(f: Opened, x: Tensor, Q: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """P H(u, v): (m, d), (m, p, d), twice (m, k, d) -> (m, k, p)."""
    at = x.repeat_interleave(u.shape[1], 0)
    rows = zip(
        *(part.split(max(1, BLOCK // f.count)) for part in (at, *_like(x, u, v))), strict=True
    )
    H = torch.cat([along_two(f, *some)[1] for some in rows]).double().view(*u.shape[:2], -1)
    return H - H @ Q @ Q.mT


def _like(x: Tensor, *directions: Tensor) -> list[Tensor]:
    return [u.flatten(0, 1).to(x.dtype) for u in directions]
