r"""Quadrature along a segment of weights, $\psi(x) = \int_0^1 J_{w(t)}(x)\,dt$, with its certificate.

The certificate needs no reference: $\psi(x)\,(w_1 - w_0) = f_{w_1}(x) - f_{w_0}(x)$ is known exactly, on
the segment and on each part of it. `GaussLegendre` doubles its nodes, or halves a part, until the
certificate holds there, and splits the segment of a point where one of its units crosses a kink. Points
without kinks share their nodes. `LeftRiemann` is the sum of Algorithm 1 of the paper (Bell et al. 2023),
and with one node the discrete path kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from numeric.inputs import InputError, positive, whole
from numeric.path_kernel.crossings import Parts, divided, find_crossings, halves, may_cross_twice
from numeric.path_kernel.gauss_legendre import gauss_legendre
from numeric.path_kernel.kinks import Switches
from numeric.path_kernel.segments import Segment

__all__ = ["MOST", "GaussLegendre", "LeftRiemann", "Nodes", "Quadrature", "discrete_path_kernel"]

FEWEST, MOST = 2, 16  # nodes on one part; where the most do not suffice, the part is halved
SHORTEST = 2.0**-44  # a part of the segment that is not divided any further
ULPS = 4  # roundings of an output that the certificate allows on each part: errors of steps add up
STALLED = 0.25  # of a defect that remains with twice the nodes: if it is small it is rounding
ROUNDING = 1024  # times the tolerance, up to which a defect that has stalled is rounding
ROUNDS = 200  # of refinement, which halving to the shortest part never needs
JUMP = (
    "The outputs are not the integral of their slope along a step of training, as where a map jumps or is "
    "not finite: use activations that are continuous."
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
        t = torch.arange(self.count, device=x.device).to(segment.outputs_at_start) / self.count
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
    ends = torch.arange(2, device=x.device).to(t)
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
        places, weights = gauss_legendre(2 * nodes.most, nodes.ends)
        width = nodes.ends.diff()
        t = torch.addcmul(nodes.ends[:-1, None], width[:, None], places)
        return t.flatten(), (width[:, None] * weights).flatten()

    def bound(self, values: Tensor) -> float:
        """The defect that is allowed, from outputs of any shape."""
        relative = self.tolerance or ULPS * torch.finfo(values.dtype).eps
        return relative * max(values.abs().amax().item(), torch.finfo(values.dtype).tiny)


class _Refinement:
    """The search for nodes of one segment."""

    def __init__(self, rule: GaussLegendre, segment: Segment) -> None:
        self.rule, self.segment, self.x = rule, segment, segment.x
        self.start, self.stop = segment.outputs_at_start, segment.outputs_at_end
        self.bound = rule.bound(torch.stack([self.start, self.stop]))
        self.nodes: list[tuple[Tensor, Tensor, Tensor]] = []
        self.total = torch.zeros_like(self.start)
        self.ends: list[Tensor] = []
        self.accepted: dict[int, int] = {}  # parts by the number of nodes that would do
        self.most = FEWEST

    def run(self, count: int) -> Nodes:
        n, x = len(self.x), self.x
        points = torch.arange(n, device=x.device)
        zero, none = torch.zeros(n).to(self.start), torch.full((n,), -1, device=x.device)
        parts = Parts(points, zero, zero + 1, none, none, zero + torch.inf)
        waiting = {count: parts}
        for _ in range(ROUNDS):
            if not waiting:
                break
            count = min(waiting)
            self._refine(waiting.pop(count), count, waiting)
        if waiting:
            raise InputError(JUMP)
        index, t, weight = (torch.cat(column) for column in zip(*self.nodes, strict=True))
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
        self._require_count(parts)
        places, weights = gauss_legendre(count, self.start)
        grid = torch.cat([places.new_zeros(1), places, places.new_ones(1)])
        width = parts.right - parts.left
        t = torch.addcmul(parts.left[:, None], width[:, None], grid)
        t[:, -1] = parts.right
        rows = parts.index.repeat_interleave(len(grid))
        values, slopes, switches = self.segment.switches(rows, t.flatten())
        values, slopes = (v.unflatten(0, t.shape) for v in (values, slopes))
        integral = width[:, None] * torch.einsum("eqk,q->ek", slopes[:, 1:-1], weights)
        change = values[:, -1] - values[:, 0]
        defect = (integral - change).abs().amax(1)  # NaN is never accepted
        crossed = torch.zeros_like(defect, dtype=torch.bool)
        if switches.count:
            crossed = self._split_at_kinks(parts, t, switches, waiting, count)
        # A defect that no longer falls is the rounding of the outputs themselves.
        rounding = defect <= ROUNDING * self.bound
        stalled = (defect > STALLED * parts.last_defect) & rounding
        short = width <= SHORTEST
        if (~crossed & short & ~rounding).any():
            raise InputError(JUMP)
        accepted = ~crossed & ((defect <= self.bound) | stalled | short)
        self.nodes.append((
            parts.index[accepted].repeat_interleave(count),
            t[accepted, 1:-1].flatten(),
            (width[accepted, None] * weights).flatten(),
        ))  # fmt: skip
        self.total.index_add_(0, parts.index[accepted], integral[accepted])
        self.ends += [parts.left[accepted], parts.right[accepted]]
        self.most = max(self.most, count) if accepted.any() else self.most
        # Where a defect has stalled, half of the nodes would have done, and will do in the next step.
        for sufficient, which in (
            (count, accepted & ~stalled),
            (max(FEWEST, count // 2), accepted & stalled),
        ):
            if number := int(which.sum()):
                self.accepted[sufficient] = self.accepted.get(sufficient, 0) + number
        refused = ~crossed & ~accepted
        rest = parts[refused]
        if not len(rest):
            return
        rest = replace(rest, last_defect=defect[refused])
        if count < MOST:
            _add(waiting, 2 * count, rest)
        else:
            _add(waiting, MOST // 2, halves(rest))

    def _require_count(self, parts: Parts) -> None:
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
        crossings = find_crossings(self.segment, parts, t, switches)
        crossed = torch.zeros(len(parts), dtype=torch.bool, device=t.device)
        if crossings is not None:
            crossed[crossings.part] = True
            _add(waiting, count, divided(parts, crossings))
        suspects = may_cross_twice(t, switches) & ~crossed & (parts.right - parts.left > 2.0**-20)
        if suspects.any():
            _add(waiting, count, halves(parts[suspects]))
        return crossed | suspects


def _add(waiting: dict[int, Parts], count: int, parts: Parts) -> None:
    waiting[count] = Parts.cat([waiting[count], parts]) if count in waiting else parts
