r"""$E[\phi(u)\phi(v)]$ of single Gaussian pairs, for any overlap and kinks anywhere.

With p and q independent standard normals, $u/\sqrt{k_{xx}}$ and $\pm v/\sqrt{k_{yy}}$ are $c\,p \pm s\,q$ for
$c, s = \sqrt{(1\pm|\rho|)/2}$. Near $|\rho| = 1$ little depends on q, and what phi does along p it does where
u or v meets 0 or a kink: the lines are cut there, and nodes crowd at the cuts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise, product

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from analytic.expressions.special import gram_det
from numeric.infinite.mehler.expansion import Function, gauss_legendre, normal, safe_root

__all__ = ["distance", "integrate"]

Pairing = Callable[[Tensor, Tensor], Tensor]
REACH = 10.0  # integrals are cut here: the standard normal density is below 1e-22 beyond
DENSITIES = (8, 12, 18)  # nodes per unit of asinh(t); 12 are enough for a phi of scale 1
CHUNK = 16  # pairs at once: their values of phi stay in cache


def integrate(
    phi: Function,
    kinks: Sequence[float],
    kxx: Tensor,
    kxy: Tensor,
    kyy: Tensor,
    size: Tensor,
    tolerance: float,
    det: Tensor | None = None,
) -> Tensor:
    """One float64 value for each pair, its estimated error at most tolerance times size.

    `det` = kxx kyy - kxy^2 may be given where it is known more accurately than from the covariances.

    Between cuts all is analytic, so errors fall geometrically with the nodes: from n to m nodes
    the change is the error at n, and its power m / n the error at m. Gradients at |rho| = 1 are
    those of pairs that stay there, as a point with itself does.
    """
    det = gram_det.array(torch, kxx, kyy, kxy) if det is None else det
    gram, collinear = torch.stack([kxx, kxy, kyy, det], 1), det == 0
    if collinear.any() and not collinear.all():  # a line needs far fewer nodes than a plane
        value = torch.zeros_like(kxx)
        for chosen in (collinear, ~collinear):
            pairs = kxx[chosen], kxy[chosen], kyy[chosen]
            part = integrate(phi, kinks, *pairs, size[chosen], tolerance, det[chosen])
            value = value.index_put((chosen,), part)
        return value
    value, left = torch.zeros_like(kxx), torch.arange(len(kxx), device=kxx.device)

    def both(u: Tensor, v: Tensor) -> Tensor:
        return phi(u) * phi(v)

    coarse = _in_chunks(both, kinks, gram.detach(), DENSITIES[0])
    reached = torch.full_like(coarse, math.inf)
    for rough, density in pairwise(DENSITIES):
        fine = _in_chunks(both, kinks, gram[left], density)
        reached = ((fine.detach() - coarse).abs() / size[left]) ** (density / rough)
        done = reached <= tolerance
        value = value.index_put((left[done],), fine[done])
        left, coarse, reached = left[~done], fine[~done].detach(), reached[~done]
        if not len(left):
            return value
    where = ", ".join(f"{k:.6g}" for k in gram[left[reached.argmax()], :3].tolist())
    raise ArithmeticError(
        f"E[phi(u) phi(v)] was found to {reached.max().item():.0e} of its scale, not to "
        f"{tolerance:.0e}, at kxx, kxy, kyy = {where}: "
        "name the kinks of phi, lower the variances, or allow a larger error."
    )


def distance(
    phi: Function, kinks: Sequence[float], gram: Tensor, side: float, density: int
) -> Tensor:
    """E[(phi(u) - side phi(v))^2] for rows of kxx, kxy, kyy and det = kxx kyy - kxy^2."""

    def square(u: Tensor, v: Tensor) -> Tensor:
        return (phi(u) - side * phi(v)) ** 2

    kxx, kxy, kyy, det = gram.unbind(1)
    collinear = det <= (8 * torch.finfo(det.dtype).eps) ** 2 * kxx * kyy
    gram, value = torch.stack([kxx, kxy, kyy, det.where(~collinear, 0.0)], 1), torch.empty_like(det)
    for chosen in (collinear, ~collinear):
        if chosen.any():
            value[chosen] = _in_chunks(square, kinks, gram[chosen], density)
    return value


def _in_chunks(of: Pairing, kinks: Sequence[float], gram: Tensor, density: int) -> Tensor:
    def part(gram: Tensor) -> Tensor:
        return _rotated(of, kinks, gram, density)

    if (
        gram.requires_grad
    ):  # recompute each chunk in the backward pass rather than store every value of phi
        part = partial(checkpoint, part, use_reentrant=False, preserve_rng_state=False)
    size = CHUNK if gram[:, 3].any() else 64 * CHUNK  # a line needs far fewer nodes than a plane
    return torch.cat([part(chunk) for chunk in gram.split(size)])


def _rotated(of: Pairing, kinks: Sequence[float], gram: Tensor, density: int) -> Tensor:
    kxx, kxy, kyy, det = (k[:, None, None] for k in gram.unbind(1))
    su, sv = kxx.sqrt(), torch.where(kxy < 0, -1.0, 1.0) * kyy.sqrt()
    rho = kxy / (su * sv)
    c = ((1 + rho) / 2).sqrt()
    s = safe_root(det / (2 * (1 + rho))) / (su * sv).abs()
    steep = torch.maximum(su, sv.abs())
    with torch.no_grad():  # the integral along p is continuous where two of its cuts meet
        meeting = [
            (a / su - b / sv) / (2 * s.clamp(min=1e-150))
            for a, b in product(kinks, kinks)
            if a or b
        ]
        around = torch.cat([torch.zeros_like(s), *meeting], 1)[..., 0]
        q, by_q = _line(around, 1 / (s * steep).clamp(min=1)[..., 0], density)
        if not s.any():
            q, by_q = torch.zeros_like(q[:, :1]), torch.ones_like(q[:, :1])
    shift = s * q[..., None]
    cuts = su.new_tensor(sorted({0.0, *kinks}))
    meets = torch.cat([cuts / su - shift, cuts / sv + shift], 2) / c
    p, by_p = _line(meets, 1 / (c * steep).clamp(min=1), density)
    u, v = su * (c * p + shift), sv * (c * p - shift)
    return ((of(u, v) * by_p).sum(2) * by_q).sum(1)


def _line(cuts: Tensor, feature: Tensor, density: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights of a standard normal along the last axis, cut at given places.

    From each cut to the middle of the next gap t - cut = feature sinh(x), with Gauss-Legendre
    nodes in x: steps are as the feature beside a cut, and as the distance far from it.
    """
    cuts = cuts.clamp(-REACH, REACH).sort(-1).values[..., None]
    middle = (cuts[..., 1:, :] + cuts[..., :-1, :]) / 2
    edge = torch.full_like(cuts[..., :1, :], REACH)
    ends = torch.cat([torch.cat([-edge, middle], -2), torch.cat([middle, edge], -2)], -1)
    feature = feature[..., None]
    far = torch.asinh((ends - cuts) / feature)[..., None]  # (..., cut, side, node)
    count = math.ceil(density * math.asinh(REACH / feature.min().item()))
    x, weight = ((part + shift) / 2 for part, shift in zip(gauss_legendre(count, cuts), (1, 0)))
    half = feature[..., None] / 2
    grown = torch.exp(far * x)  # torch.sinh takes six times as long
    shrunk = 1 / grown
    t = cuts[..., None] + half * (grown - shrunk)
    weight = (far.abs() * half) * weight * (grown + shrunk) * normal(t)
    return t.flatten(-3), weight.flatten(-3)
