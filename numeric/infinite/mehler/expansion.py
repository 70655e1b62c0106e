r"""Hermite coefficients $a_k(V)$ of $\phi(\sqrt V t)$, and the norm of the truncated tail."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from numeric.inputs import InputError

__all__ = [
    "TOLERANCE", "Expansion", "Function", "attainable", "evaluate_finite", "expand", "gauss_legendre",
    "normal", "safe_root",
]  # fmt: skip

Function = Callable[[Tensor], Tensor]
Sample = tuple[Tensor, Tensor, Tensor, Tensor]  # see _sampled

TOLERANCE = 1e-13
REACH = 13  # integrals are cut here: the root of the normal density is below 1e-18 beyond
FINEST = 64  # most panels per unit of t
NODES = 20  # Gauss-Legendre nodes of a panel; a rule with four fewer must agree
ROWS = 2**11  # variances expanded at once
GRADED = 12  # pieces of a panel beside 0 or a kink, each a sixteenth of the one before: to 5e-14
SCAN = 2**16  # points at which a phi that is constant at all nodes is checked again


@dataclass(frozen=True, eq=False)
class Expansion:
    r"""$\phi(\sqrt V t) = \sum_k a_k(V)\,He_k(t)/\sqrt{k!}$ for a vector of variances, up to an order M."""

    V: Tensor  # (n,)
    coefficients: Tensor  # (n, M + 1)
    tail: Tensor  # (n,): the root of E[phi^2] less the squares of the coefficients, rounded up

    def __getitem__(self, index: slice | Tensor) -> Expansion:
        return Expansion(self.V[index], self.coefficients[index], self.tail[index])

    def __len__(self) -> int:
        return len(self.V)

    @property
    def order(self) -> int:
        return self.coefficients.shape[1] - 1

    @property
    def tails(self) -> Tensor:
        """The tail if the last order were 0, 1, ..., M: (n, M + 1)."""
        squares = torch.cat([self.coefficients.detach()[:, 1:], self.tail[:, None]], 1) ** 2
        return squares.flip(1).cumsum(1).flip(1).sqrt()

    def tail_beyond(self, order: int) -> Tensor:
        """The tail if the last order were `order`: (n,)."""
        return torch.hypot(self.coefficients.detach()[:, order + 1 :].norm(dim=1), self.tail)

    @property
    def size(self) -> Tensor:
        r"""$\sqrt{E[\phi^2]}$."""
        return torch.hypot(self.coefficients.detach().norm(dim=1), self.tail)


def expand(
    phi: Function,
    V: Tensor,
    kinks: Sequence[float] = (),
    tolerance: float = TOLERANCE,
    most: int = 2**11,
) -> Expansion:
    r"""Coefficients up to the first order 16, 32, ... with $R_M$ below tolerance $E[\phi^2]$, or to `most`.

    The work is done in float64. Gradients reach V, but are 0 at V = 0 exactly, which is right for
    an input that stays at the origin.

    phi: any function of tensors. V: variances (n,), floats at least 0. kinks: where phi has one, or jumps.
    Returned is an Expansion. Refused are other V, and variances so large that the quadrature's nodes would
    miss features of phi of unit size.

    >>> hermite = expand(torch.sin, torch.tensor([1.0], dtype=torch.float64))
    >>> hermite.order, round(hermite.coefficients[0, 1].item(), 6)  # the root of exp(-1)
    (16, 0.606531)
    """
    if V.ndim != 1 or not V.is_floating_point() or not (torch.isfinite(V) & (V >= 0)).all():
        raise InputError(f"Variances must be a vector of finite floats at least 0, not {V}.")
    tolerance = attainable(tolerance, V.dtype)
    host = torch.device("cpu") if V.device.type == "mps" else V.device  # which has no float64
    steepest = math.sqrt(V.max().item()) if len(V) else 0.0
    if steepest > FINEST * NODES:  # both rules would miss features of phi, and agree
        raise InputError(
            f"A variance of {steepest**2:.3g} is too large for averages of phi by quadrature, which see "
            f"features of unit size up to {float(FINEST * NODES) ** 2:.3g}: scale the points or sigma_w down."
        )
    # Features of phi have unit size in z, so 1 / sqrt(V) in t.
    panels = min(FINEST, max(4, math.ceil(0.4 * steepest)))
    cuts = tuple(sorted(float(b) for b in kinks if b))  # panels meet at 0 anyway

    def part(V: Tensor, least: int) -> Expansion:
        return _expanded(phi, V, cuts, panels, tolerance, least, most)

    chunks = V.to(host, torch.float64).split(ROWS)
    parts = [part(chunk, min(16, most)) for chunk in chunks]
    order = max(p.order for p in parts)
    parts = [p if p.order == order else part(p.V, order) for p in parts]
    fields = (torch.cat([getattr(p, f) for p in parts]) for f in ("V", "coefficients", "tail"))
    return Expansion(*(field.to(V.device, V.dtype) for field in fields))


def attainable(tolerance: float, dtype: torch.dtype) -> float:
    """The tolerance, or the rounding error if larger: coefficients are float64, sums have this dtype."""
    return max(tolerance, 1.5e-14, 8 * torch.finfo(dtype).eps)


def _expanded(
    phi: Function,
    V: Tensor,
    cuts: tuple[float, ...],
    panels: int,
    tolerance: float,
    least: int,
    most: int,
) -> Expansion:
    root = safe_root(V)
    t, values, square, constant = _sampled(phi, root, cuts, panels, NODES)
    rough = _sampled(phi, root.detach(), cuts, panels, NODES - 4)
    _check_resolution(phi, V, (t, values, square, constant), rough, tolerance, (cuts, panels))
    rounding = 32 * torch.finfo(V.dtype).eps * square
    functions, blocks, rest, order = _hermite(t), [], square, 0
    while order < least or (order < most and (rest + rounding > tolerance * square).any()):
        more = min(2 * order or least, most) - order
        basis = torch.stack(list(islice(functions, more + (order == 0))))
        blocks.append(values @ basis.mT)
        rest = (rest - (blocks[-1].detach() ** 2).sum(1)).clamp(min=0)
        order += more
    return Expansion(V, torch.cat(blocks, 1), (rest + rounding).sqrt())


@torch.no_grad()
def _check_resolution(
    phi: Function,
    V: Tensor,
    fine: Sample,
    rough: Sample,
    tolerance: float,
    layout: tuple[tuple[float, ...], int],
) -> None:
    """Refuse a phi that the panels do not resolve, or that is still large where they end."""
    (mean, square, constant), (rough_mean, rough_square, _) = (
        (values @ normal(t).sqrt(), square, constant)
        for t, values, square, constant in (fine, rough)
    )
    root = safe_root(V)
    ends = REACH * root
    edge = (phi(ends).abs() + phi(-ends).abs()) * math.exp(-(REACH**2) / 4)
    missed_mean, missed_square = _missed_beside_cuts(phi, root, *layout)
    if constant.any():
        _require_constant(phi, root[constant].max(), tolerance)
    off = (square - rough_square).abs() + ((mean - rough_mean).abs() + edge) * square.sqrt()
    off = off + missed_square + missed_mean * square.sqrt()
    off = torch.where(
        off > 0, off / square, 0.0
    )  # square may be 0 at all nodes although phi is not 0 beside a cut
    if not (off <= tolerance + 1e-14).all():
        worst = off.nan_to_num(math.inf).argmax()
        raise InputError(
            f"Averages of phi at variance {V[worst].item():.3g} were found to {off[worst].item():.0e} only, "
            f"not to {tolerance:.0e}: name the kinks of phi, lower the variance, or use a phi that is "
            "less steep or grows less."
        )


def _missed_beside_cuts(
    phi: Function, root: Tensor, cuts: tuple[float, ...], panels: int
) -> tuple[Tensor, Tensor]:
    """Quadrature errors of E[phi] and E[phi^2] on either side of 0 and of each kink.

    A function such as tanh(1e5 z) varies only between 0 and the first node, so that both rules of
    `_check_resolution` take it for a step. Pieces that shrink geometrically towards the cut resolve it.
    """
    x, weight = gauss_legendre(NODES, root)
    places = torch.stack([0 * root, *(b / root.clamp(min=abs(b) / (2 * REACH)) for b in cuts)], 1)
    places = places.clamp(-REACH, REACH).sort(1).values
    border = torch.full_like(places[:, :1], REACH)
    marks = torch.cat([-border, places, border], 1).diff(dim=1).clamp(max=1 / panels)
    lengths = torch.stack([-marks[:, :-1], marks[:, 1:]], 2)[..., None]  # (n, cut, side, 1)
    powers = 16.0 ** -torch.arange(GRADED).to(root)
    graded = torch.stack([torch.cat([powers[1:], 0 * powers[:1]]), powers], 1)  # from, to

    def moments(pieces: Tensor) -> tuple[Tensor, Tensor]:
        widths = pieces.diff(dim=1)
        at = (pieces[:, :1] + widths * (x + 1) / 2).flatten()
        t = places[:, :, None, None] + lengths * at
        share = normal(t) * lengths.abs() * (widths * weight / 2).flatten()
        values = evaluate_finite(phi, root[:, None, None, None] * t)
        return (values * share).sum(-1), (values**2 * share).sum(-1)

    panel = moments(torch.tensor([[0.0, 1.0]]).to(root))
    first, second = ((a - b).abs().sum((1, 2)) for a, b in zip(panel, moments(graded), strict=True))
    return first, second


def _require_constant(phi: Function, root: Tensor, tolerance: float) -> None:
    """Refuse a phi that is constant at the nodes but not between them: the quadrature misses its bumps."""
    z = root * torch.linspace(-REACH, REACH, SCAN).to(root)
    values = evaluate_finite(phi, z)
    bumps = (values - values[0]).abs() > tolerance * values.abs().max()
    if bumps.any():
        raise InputError(
            f"phi is constant at all nodes of a quadrature but not at {z[bumps][0].item():.6g}: it "
            "must be smooth on the scale 1. Name its kinks, or use a phi whose bumps are wider."
        )


def _hermite(t: Tensor) -> Iterator[Tensor]:
    """He_k / sqrt(k!) with the root of the normal density, k = 0, 1, ...: no factor overflows."""
    before, now, k = torch.zeros_like(t), normal(t).sqrt(), 0
    while True:
        yield now
        before, now = now, (t * now - math.sqrt(k) * before) / math.sqrt(k + 1)
        k += 1


def _sampled(
    phi: Function, root: Tensor, cuts: tuple[float, ...], panels: int, nodes: int
) -> Sample:
    """Nodes t, phi with the weights for integrals against Hermite functions, E[phi^2], and which rows
    have one value at all nodes.

    All rows share their nodes. A panel with a kink in it gets the Legendre projection of phi,
    whose integrals against functions that are smooth there are those of phi.
    """
    x, weight = gauss_legendre(nodes, root)
    half = 0.5 / panels
    middle = torch.arange(2 * REACH * panels).to(root) / panels - REACH + half
    t = middle[:, None] + half * x
    values = evaluate_finite(phi, root[:, None, None] * t)
    constant = (values == values[:, :1, :1]).flatten(1).all(1)
    squares = (values.detach() ** 2 * normal(t) * half * weight).sum(-1)
    ends = [(b / root.clamp(min=abs(b) / (2 * REACH))).clamp(-REACH, REACH) for b in cuts]
    for end in ends:
        panel = ((end.detach() + REACH) * panels).long().clamp(max=len(middle) - 1)
        centre = middle[panel]
        inside = [(other - centre).clamp(-half, half) for other in ends]
        marks = torch.stack([0 * centre - half, *inside, 0 * centre + half], 1)[..., None]
        gaps = marks.diff(dim=1)
        at = (marks[:, :-1] + gaps * (x + 1) / 2).flatten(1)
        share = (gaps * weight / 2).flatten(1)
        y = evaluate_finite(phi, root[:, None] * (centre[:, None] + at))
        there, here = _legendre(at / half, nodes), _legendre(x, nodes)
        front = (2 * torch.arange(nodes).to(x) + 1) / (2 * half)
        projected = torch.einsum("l,lns,ns,lq->nq", front, there, share * y, here)
        square = (share * normal(centre[:, None] + at) * y**2).sum(1).detach()
        values = values.scatter(1, panel[:, None, None].expand(-1, 1, nodes), projected[:, None])
        squares = squares.scatter(1, panel[:, None], square[:, None])
    weighted = values * half * weight * normal(t).sqrt()
    return t.flatten(), weighted.flatten(1), squares.sum(1), constant


def _legendre(x: Tensor, count: int) -> Tensor:
    """P_0, ..., P_(count - 1) along a new first axis."""
    rows = [torch.ones_like(x), x]
    for l in range(1, count - 1):
        rows.append(((2 * l + 1) * x * rows[-1] - l * rows[-2]) / (l + 1))
    return torch.stack(rows)


_leggauss = lru_cache(np.polynomial.legendre.leggauss)


def gauss_legendre(nodes: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights on [-1, 1]."""
    x, weight = _leggauss(nodes)
    return torch.from_numpy(x).to(like), torch.from_numpy(weight).to(like)


def normal(t: Tensor) -> Tensor:
    return torch.exp(-t * t / 2) / math.sqrt(2 * math.pi)


def safe_root(x: Tensor) -> Tensor:
    """sqrt(x), with derivative 0 at 0 in place of infinity."""
    return torch.where(x > 0, torch.where(x > 0, x, 1.0).sqrt(), 0.0)


def evaluate_finite(phi: Function, z: Tensor) -> Tensor:
    """phi(z), which must be finite and have the shape of z."""
    try:
        values = phi(z)
    except OverflowError:
        raise InputError(
            "phi holds an integer beyond 64 bits, which torch cannot take: write it as a float, as in "
            "tanh.scaled(1e20)."
        ) from None
    if values.shape != z.shape or not torch.isfinite(values).all():
        raise InputError(
            f"phi must map a tensor to as many finite numbers, but {tuple(z.shape)} values up to "
            f"{z.abs().max().item():.3g} became {tuple(values.shape)}, some of them perhaps NaN or infinite."
        )
    return values
