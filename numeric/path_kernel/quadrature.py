r"""Quadrature along a segment of weights, $\psi(x) = \int_0^1 J_{w(t)}(x)\,dt$, with its certificate.

The certificate needs no reference: $\psi(x)\,(w_1 - w_0) = f_{w_1}(x) - f_{w_0}(x)$ is known exactly, on
the segment and on each part of it. `GaussLegendre` doubles its nodes, or halves a part, until the
certificate holds there, and splits the segment of a point where one of its units crosses a kink. Points
without kinks share their nodes. `LeftRiemann` is the sum of Algorithm 1 of the paper (Bell et al. 2023),
and with one node the discrete path kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from numeric.inputs import InputError, positive, whole
from numeric.path_kernel.kinks import Switches
from numeric.path_kernel.segments import Segment

__all__ = [
    "MOST", "GaussLegendre", "LeftRiemann", "Nodes", "Parts", "Quadrature", "bracketed_roots",
    "discrete_path_kernel",
]  # fmt: skip

FEWEST, MOST = 2, 16  # nodes on one part; where the most do not suffice, the part is halved
SHORTEST = 2.0**-44  # a part of the segment that is not divided any further
ULPS = 4  # roundings of an output that the certificate allows on each part: errors of steps add up
STALLED = 0.25  # of a defect that remains with twice the nodes: if it is small it is rounding
ROUNDING = 1024  # times the tolerance, up to which a defect that has stalled is rounding
ROUNDS = 200  # of refinement, which halving to the shortest part never needs
CLOSE = 2.0**-46  # to the end of a part: a crossing there is the one that made the end
SUSPECT = 1e-9  # of a unit's values, by which a Bernstein coefficient must be beyond the kink
LINE = 64  # roundings by which values on a line may be off it
ALMOST = 2.0**-48  # the next step of a search for a root that need not be taken
JUMP = (
    "The outputs are not the integral of their slope along a step of training, as where a map jumps or is "
    "not finite: use activations that are continuous."
)
STEPS_OF_SEARCH = (
    60  # of bisection and interpolation, which find a root to the last digit long before
)


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes and weights of several points in one list, and the certificate for each point and output."""

    index: Tensor  # (e,), which point
    t: Tensor  # (e,)
    weight: Tensor  # (e,)
    integral: Tensor  # (n, k), of J along the step
    defect: Tensor  # (n, k), the integral minus the difference of outputs
    count: (
        int  # nodes on a part that sufficed for most of them: a good first guess for the next step
    )
    most: int  # nodes on a part, at most
    ends: Tensor  # (b,), the ends of all parts of all points, 0 and 1 among them

    def __len__(self) -> int:
        return len(self.t)

    @staticmethod
    def cat(parts: list[Nodes]) -> Nodes:
        """The nodes of points that follow each other."""
        if len(parts) == 1:
            return parts[0]
        counts = [len(part.integral) for part in parts]
        shifts = [sum(counts[:k]) for k in range(len(parts))]
        return Nodes(
            torch.cat([part.index + shift for part, shift in zip(parts, shifts, strict=True)]),
            torch.cat([part.t for part in parts]),
            torch.cat([part.weight for part in parts]),
            torch.cat([part.integral for part in parts]),
            torch.cat([part.defect for part in parts]),
            max(part.count for part in parts),
            max(part.most for part in parts),
            torch.cat([part.ends for part in parts]).unique(),
        )


class Quadrature(Protocol):
    """Whatever places nodes on a segment: for each point, and the same for pairs of points."""

    def nodes(self, segment: Segment, count: int = 0) -> Nodes:
        """Nodes for each point; `count` is a first guess of how many on a part."""
        ...

    def common(self, nodes: Nodes) -> tuple[Tensor, Tensor]:
        """Places (q,) and weights (q,) for integrals of products of two points' gradients."""
        ...


@dataclass(frozen=True)
class LeftRiemann:
    r"""$\frac1T\sum_{j<T} J_{w(j/T)}(x)$, as in Algorithm 1 with its nodes 0, 1/T, ..., (T-1)/T.

    >>> LeftRiemann(100)
    LeftRiemann(count=100)
    """

    count: int = 100

    def __post_init__(self) -> None:
        whole("count", self.count)

    def nodes(self, segment: Segment, count: int = 0) -> Nodes:
        """The same nodes for all points."""
        x = segment.x
        t = torch.arange(self.count, device=x.device).to(x) / self.count
        return _shared(segment, t, torch.full_like(t, 1 / self.count))

    def common(self, nodes: Nodes) -> tuple[Tensor, Tensor]:
        """The same nodes again."""
        return nodes.t[: self.count], nodes.weight[: self.count]


def discrete_path_kernel() -> LeftRiemann:
    """The gradient at the start of each step only: the discrete path kernel of earlier work.

    >>> discrete_path_kernel()
    LeftRiemann(count=1)
    """
    return LeftRiemann(1)


def _shared(segment: Segment, t: Tensor, weight: Tensor) -> Nodes:
    """The same nodes for all points."""
    x = segment.x
    n, q = len(x), len(t)
    index = torch.arange(n, device=x.device).repeat_interleave(q)
    _, slopes = segment.slopes(index, t.repeat(n))
    total = torch.einsum("nqk,q->nk", slopes.unflatten(0, (n, q)), weight)
    change = segment.outputs_at_end - segment.outputs_at_start
    ends = torch.arange(2, device=x.device).to(x)
    return Nodes(index, t.repeat(n), weight.repeat(n), total, total - change, q, q, ends)


@dataclass(frozen=True)
class GaussLegendre:
    """Nodes of Gauss and Legendre, as many and on as many parts as the certificate asks for.

    tolerance: of the defect on each part, relative to the outputs; None is 4 roundings of the dtype.
    most: parts of a segment, at most, for one point; more are refused, since a map that jumps needs no
    end of them.

    >>> GaussLegendre(tolerance=1e-10)
    GaussLegendre(tolerance=1e-10, most=4096)
    """

    tolerance: float | None = None
    most: int = 4096

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            positive("tolerance", self.tolerance)
        whole("most", self.most)

    def nodes(self, segment: Segment, count: int = 0) -> Nodes:
        """Nodes for all points, with a defect of no more than rounding; `count` nodes are tried first."""
        return _Refinement(self, segment).run(min(max(FEWEST, count), MOST))

    def common(self, nodes: Nodes) -> tuple[Tensor, Tensor]:
        """Twice as many nodes, since products have twice the degree, between the kinks of all points."""
        places, weights = _rule(2 * nodes.most, nodes.ends)
        width = nodes.ends.diff()
        t = torch.addcmul(nodes.ends[:-1, None], width[:, None], places)
        return t.flatten(), (width[:, None] * weights).flatten()

    def bound(self, values: Tensor) -> float:
        """The defect that is allowed, from outputs of any shape."""
        relative = self.tolerance or ULPS * torch.finfo(values.dtype).eps
        return relative * max(values.abs().amax().item(), torch.finfo(values.dtype).tiny)


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts [left, right] of the segments of points, and the units whose crossing made their ends, or -1."""

    index: Tensor
    left: Tensor
    right: Tensor
    left_unit: Tensor
    right_unit: Tensor
    last_defect: Tensor  # with half of the nodes; infinite if there was none

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: Tensor) -> Parts:
        return Parts(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    @staticmethod
    def cat(parts: list[Parts]) -> Parts:
        fields = Parts.__dataclass_fields__
        return Parts(*(torch.cat([getattr(part, name) for part in parts]) for name in fields))


class _Refinement:
    """The search for nodes of one segment."""

    def __init__(self, rule: GaussLegendre, segment: Segment) -> None:
        self.rule, self.segment, self.x = rule, segment, segment.x
        self.start, self.stop = segment.outputs_at_start, segment.outputs_at_end
        self.bound = rule.bound(torch.stack([self.start, self.stop]))
        self.found: list[tuple[Tensor, Tensor, Tensor]] = []
        self.total = torch.zeros_like(self.start)
        self.ends: list[Tensor] = []
        self.accepted: dict[int, int] = {}  # parts by the number of nodes that would do
        self.most = FEWEST

    def run(self, count: int) -> Nodes:
        n, x = len(self.x), self.x
        every = torch.arange(n, device=x.device)
        zero, none = torch.zeros(n).to(x), torch.full((n,), -1, device=x.device)
        parts = Parts(every, zero, zero + 1, none, none, zero + torch.inf)
        waiting = {count: parts}
        for _ in range(ROUNDS):
            if not waiting:
                break
            count = min(waiting)
            self._refine(waiting.pop(count), count, waiting)
        if waiting:
            raise InputError(JUMP)
        index, t, weight = (torch.cat(column) for column in zip(*self.found, strict=True))
        order = index.argsort(stable=True)
        defect = self.total - (self.stop - self.start)
        usual = max(self.accepted, key=lambda key: self.accepted[key])
        ends = torch.cat(self.ends).unique()
        return Nodes(
            index[order],
            t[order],
            weight[order],
            self.total,
            defect,
            usual,
            self.most,
            ends,
        )

    def _refine(self, parts: Parts, count: int, waiting: dict[int, Parts]) -> None:
        """Accept the parts whose certificate holds, and hand on the others: divided, or to more nodes."""
        self._require_few(parts, waiting)
        places, weights = _rule(count, self.x)
        grid = torch.cat([places.new_zeros(1), places, places.new_ones(1)])
        width = parts.right - parts.left
        t = torch.addcmul(parts.left[:, None], width[:, None], grid)
        t[:, -1] = parts.right
        rows = parts.index.repeat_interleave(len(grid))
        values, slopes, switches = self.segment.switches(rows, t.flatten())
        values, slopes = (v.unflatten(0, t.shape) for v in (values, slopes))
        integral = width[:, None] * torch.einsum("eqk,q->ek", slopes[:, 1:-1], weights)
        change = values[:, -1] - values[:, 0]
        off = (integral - change).abs().amax(1)  # NaN is never accepted
        crossed = torch.zeros_like(off, dtype=torch.bool)
        if switches.count:
            crossed = self._split_at_kinks(parts, t, switches, waiting, count)
        # A defect that no longer falls is the rounding of the outputs themselves.
        rounding = off <= ROUNDING * self.bound
        stalled = (off > STALLED * parts.last_defect) & rounding
        short = width <= SHORTEST
        if (~crossed & short & ~rounding).any():
            raise InputError(JUMP)
        fine = ~crossed & ((off <= self.bound) | stalled | short)
        self.found.append((
            parts.index[fine].repeat_interleave(count),
            t[fine, 1:-1].flatten(),
            (width[fine, None] * weights).flatten(),
        ))  # fmt: skip
        self.total.index_add_(0, parts.index[fine], integral[fine])
        self.ends += [parts.left[fine], parts.right[fine]]
        self.most = max(self.most, count) if fine.any() else self.most
        # Where a defect has stalled, half of the nodes would have done, and will do in the next step.
        for enough, which in ((count, fine & ~stalled), (max(FEWEST, count // 2), fine & stalled)):
            if accepted := int(which.sum()):
                self.accepted[enough] = self.accepted.get(enough, 0) + accepted
        open_ = ~crossed & ~fine
        rest = parts[open_]
        if not len(rest):
            return
        rest = replace(rest, last_defect=off[open_])
        if count < MOST:
            _add(waiting, 2 * count, rest)
        else:
            middle = (rest.left + rest.right) / 2
            _add(waiting, MOST // 2, _halves(rest, middle, torch.full_like(rest.index, -1)))

    def _require_few(self, parts: Parts, waiting: dict[int, Parts]) -> None:
        if len(parts) > self.rule.most * len(self.x):
            raise InputError(
                f"More than {self.rule.most} parts of one step of training are needed to integrate its "
                "gradient: the outputs jump or oscillate along it. Take smaller steps, or continuous "
                "activations."
            )

    def _split_at_kinks(
        self, parts: Parts, t: Tensor, switches: Switches, waiting: dict[int, Parts], count: int
    ) -> Tensor:
        """Divide the parts in which a unit crosses a kink, there; which ones those are, (parts,)."""
        p, q = t.shape
        crossings = _crossings(parts, switches, p, q)
        roots = self._roots(parts, t, switches, crossings) if len(crossings[0]) else None
        crossed = torch.zeros(p, dtype=torch.bool, device=t.device)
        if roots is not None:
            part, at, unit = roots
            crossed[part] = True
            _add(waiting, count, _divided(parts, part, at, unit))
        suspects = _suspects(t, switches, p, q) & ~crossed & (parts.right - parts.left > 2.0**-20)
        if suspects.any():
            some = parts[suspects]
            middle = (some.left + some.right) / 2
            _add(waiting, count, _halves(some, middle, torch.full_like(some.index, -1)))
        return crossed | suspects

    def _roots(
        self, parts: Parts, t: Tensor, switches: Switches, crossings: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """Where the crossing units cross, in the parts' order: part, t and unit, (r,) each."""
        part, place, unit, before, after = crossings
        q = t.shape[1]
        a, b = t[part, place], t[part, place + 1]
        at_a = switches.margins(part * q + place, unit, before, after)
        at_b = switches.margins(part * q + place + 1, unit, before, after)
        true = (at_a > 0) & (at_b < 0)  # ties, as of a window of zeros, are another unit's crossing
        if not true.any():
            return None
        part, unit, before, after, a, b, at_a, at_b = (
            v[true] for v in (part, unit, before, after, a, b, at_a, at_b)
        )
        point = parts.index[part]

        def margins(rows: Tensor, at: Tensor) -> Tensor:
            choices = self.segment.choices(point[rows], at)
            every = torch.arange(len(at), device=at.device)
            return choices.margins(every, unit[rows], before[rows], after[rows])

        # A unit of the first layer moves on a line, and the secant is its root.
        root = torch.lerp(a, b, at_a / (at_a - at_b))
        curved = torch.nonzero(~self._on_a_line(t, switches, part, unit, before, after)).squeeze(1)
        if len(curved):
            root[curved] = bracketed_roots(
                lambda rows, at: margins(curved[rows], at),
                a[curved],
                b[curved],
                at_a[curved],
                at_b[curved],
            )
        left, right = parts.left[part], parts.right[part]
        inside = (root - left > CLOSE) & (right - root > CLOSE)
        if not inside.any():
            return None
        part, root, unit = part[inside], root[inside], unit[inside]
        order = root.argsort(stable=True)
        order = order[part[order].argsort(stable=True)]
        return part[order], root[order], unit[order]

    @staticmethod
    def _on_a_line(
        t: Tensor, switches: Switches, part: Tensor, unit: Tensor, before: Tensor, after: Tensor
    ) -> Tensor:
        """Whether a unit's margins at all places of a part lie on a line, to rounding: (r,)."""
        q = t.shape[1]
        places = torch.arange(q, device=t.device)
        rows = (part[:, None] * q + places).flatten()
        repeated = (v.repeat_interleave(q) for v in (unit, before, after))
        values = switches.margins(rows, *repeated).unflatten(0, (-1, q))
        share = (t[part] - t[part, :1]) / (t[part, -1:] - t[part, :1])
        line = torch.lerp(values[:, :1], values[:, -1:], share)
        return (values - line).abs().amax(1) <= LINE * torch.finfo(t.dtype).eps * values.abs().amax(
            1
        )


def _crossings(parts: Parts, switches: Switches, p: int, q: int) -> tuple[Tensor, ...]:
    """Changes of choice from one place to the next: part, place, unit, choice before and after, (r,) each."""
    states = switches.states().unflatten(0, (p, q))
    # At its own crossing a unit is on neither side: there it counts as where the part's inner nodes are.
    every = torch.arange(p, device=states.device)
    for unit, end, inner in ((parts.left_unit, 0, 1), (parts.right_unit, -1, -2)):
        own = unit >= 0
        states[every[own], end, unit[own]] = states[every[own], inner, unit[own]]
    part, place, unit = torch.nonzero(states[:, 1:] != states[:, :-1], as_tuple=True)
    return part, place, unit, states[part, place, unit], states[part, place + 1, unit]


def _suspects(t: Tensor, switches: Switches, p: int, q: int) -> Tensor:
    """Parts where a unit may cross a kink and come back between two nodes, (p,).

    The polynomial through a unit's values has no root if its Bernstein coefficients have one sign.
    """
    suspect = torch.zeros(p, dtype=torch.bool, device=t.device)
    matrix = _to_bernstein(q - 2, t)
    for part in switches.parts:
        if part.shape[2] > 1:  # windows are left to the certificate
            continue
        margin = part[:, :, 0].unflatten(0, (p, q))
        least, most = margin.aminmax(dim=1)
        # Near its kink, for how much it moves, but not on it and not across it, which has been seen to.
        size = torch.maximum(least.abs(), most.abs())
        near = (most - least) > torch.minimum(least.abs(), most.abs())
        near &= (least > SUSPECT * size) | (most < -SUSPECT * size)
        some, unit = near.nonzero(as_tuple=True)
        if len(some):
            values = margin[some, :, unit].abs()  # (r, q)
            beyond = (values @ matrix.T).amin(1) < -SUSPECT * size[some, unit]
            suspect[some[beyond]] = True
    return suspect


def bracketed_roots(margins, a: Tensor, b: Tensor, at_a: Tensor, at_b: Tensor) -> Tensor:
    """Roots of continuous functions of one variable with values of opposite sign at a and b, (r,).

    `margins(rows, t)` gives the values of some of the functions. Chandrupatla's method: inverse quadratic
    interpolation where it is safe, bisection elsewhere.
    """
    eps = torch.finfo(a.dtype).eps
    small = 4 * eps * torch.maximum(at_a.abs(), at_b.abs())
    root = torch.where(at_a.abs() < at_b.abs(), a, b)
    active = torch.arange(len(a), device=a.device)
    x1, x2, f1, f2 = b, a, at_b, at_a
    share = (f1 / (f1 - f2)).clamp(0, 1)  # the secant first: a line is solved at once
    for _ in range(STEPS_OF_SEARCH):
        x = x1 + share * (x2 - x1)
        f = margins(active, x)
        same = torch.sign(f) == torch.sign(f1)
        x3, f3 = torch.where(same, x1, x2), torch.where(same, f1, f2)
        x2, f2 = torch.where(same, x2, x1), torch.where(same, f2, f1)
        x1, f1 = x, f
        better = f1.abs() < f2.abs()
        best = torch.where(better, x1, x2)
        width = (x2 - x1).abs()
        limit = 2 * eps * best.abs() + eps / 4
        secant = torch.maximum(  # by the slopes towards either side
            (f1 * (x2 - x1) / (f2 - f1)).abs(), (f1 * (x3 - x1) / (f3 - f1)).abs()
        )
        done = (f1.abs() <= small) | (width <= 2 * limit) | (secant <= ALMOST)
        root[active[done]] = torch.where(f1.abs() <= f2.abs(), x1, x2)[done]
        keep = ~done
        if not keep.any():
            break
        root[active] = best
        active, small = active[keep], small[keep]
        x1, x2, x3, f1, f2, f3 = (v[keep] for v in (x1, x2, x3, f1, f2, f3))
        limit, width = limit[keep], width[keep]
        xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
        safe = (1 - torch.sqrt((1 - xi).clamp(min=0)) < phi) & (phi < torch.sqrt(xi.clamp(min=0)))
        inverse = (f1 / (f2 - f1)) * (f3 / (f2 - f3)) + ((x3 - x1) / (x2 - x1)) * (
            f1 / (f3 - f1)
        ) * (f2 / (f3 - f2))
        share = torch.where(safe & inverse.isfinite(), inverse, 0.5)
        least = (limit / width).clamp(max=0.5)
        share = torch.minimum(torch.maximum(share, least), 1 - least)
    return root


def _divided(parts: Parts, part: Tensor, at: Tensor, unit: Tensor) -> Parts:
    """Parts cut at crossings, which come sorted by part and t."""
    first = torch.ones_like(part, dtype=torch.bool)
    first[1:] = (part[1:] != part[:-1]) | (at[1:] - at[:-1] > CLOSE)
    part, at, unit = part[first], at[first], unit[first]
    starts = torch.ones_like(part, dtype=torch.bool)
    starts[1:] = part[1:] != part[:-1]
    ends = torch.ones_like(starts)
    ends[:-1] = starts[1:]
    left, left_unit = at.roll(1), unit.roll(1)
    left[starts], left_unit[starts] = parts.left[part[starts]], parts.left_unit[part[starts]]
    fresh = torch.full_like(at, torch.inf)
    before = Parts(parts.index[part], left, at, left_unit, unit, fresh)
    last = part[ends]
    behind = Parts(
        parts.index[last],
        at[ends],
        parts.right[last],
        unit[ends],
        parts.right_unit[last],
        fresh[ends],
    )
    return Parts.cat([before, behind])


def _halves(parts: Parts, middle: Tensor, unit: Tensor) -> Parts:
    fresh = torch.full_like(middle, torch.inf)
    return Parts.cat([
        Parts(parts.index, parts.left, middle, parts.left_unit, unit, fresh),
        Parts(parts.index, middle, parts.right, unit, parts.right_unit, fresh),
    ])  # fmt: skip


def _add(waiting: dict[int, Parts], count: int, parts: Parts) -> None:
    waiting[count] = Parts.cat([waiting[count], parts]) if count in waiting else parts


@cache
def _gauss_legendre(count: int) -> tuple[np.ndarray, np.ndarray]:
    places, weights = np.polynomial.legendre.leggauss(count)
    return (places + 1) / 2, weights / 2


def _rule(count: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights on [0, 1]."""
    places, weights = (torch.from_numpy(v.copy()).to(like) for v in _gauss_legendre(count))
    return places, weights


@cache
def _bernstein(count: int) -> np.ndarray:
    """From values at the ends and Gauss nodes to Bernstein coefficients of the polynomial through them."""
    from scipy.special import binom

    grid = np.concatenate([[0.0], _gauss_legendre(count)[0], [1.0]])
    degree = len(grid) - 1
    k = np.arange(degree + 1)
    basis = binom(degree, k) * grid[:, None] ** k * (1 - grid[:, None]) ** (degree - k)
    return np.linalg.inv(basis)


def _to_bernstein(count: int, like: Tensor) -> Tensor:
    return torch.from_numpy(_bernstein(count).copy()).to(like)
