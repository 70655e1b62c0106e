r"""The integrals $\psi(x) = \int_0^1 J_{w(t)}(x)\,dt$ over a segment of weights, in factored form.

The nodes of a point act as further positions of its layers: $\sum_q \omega_q S_q A_q^T$ is an outer
product with as many positions as nodes. Where the inputs of a layer do not move, as those of the first
layer, or its signals do not, as those of a linear last layer, the sum over nodes is taken at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from numeric.path_kernel.quadrature import Nodes
from numeric.path_kernel.segments import Segment, groups_of
from numeric.tangents import Differentiation, Gradients
from numeric.tangents.factored import ParameterGradient, concatenated
from numeric.tangents.factors import Dense, Factor, Outer

__all__ = ["Integral", "dense_as", "integrals", "joined"]

ELEMENTWISE = 64  # multiplications of matrices in the time of one that is not
SPREAD = 4  # times as many nodes as another point: then the two are not padded to the same number


@dataclass(frozen=True, eq=False)
class Integral:
    """psi at some of the points: which ones, and the factors."""

    points: Tensor  # (m,)
    gradients: Gradients  # of m points, with a signal for each output


def integrals(
    differentiation: Differentiation, segment: Segment, nodes: Nodes, rows: int
) -> Iterator[Integral]:
    """psi at all points, some at a time: those with about as many nodes, and at most so many rows.

    `opened` is the model at points of the same shape.
    """
    counts = torch.bincount(nodes.index, minlength=len(segment.x))
    first = counts.cumsum(0) - counts
    for points in _alike(counts, rows):
        most = int(counts[points].amax())
        place = torch.arange(most, device=points.device)
        inside = place < counts[points][:, None]  # (m, q)
        # Points with fewer nodes repeat their last one, with weight 0.
        index = first[points][:, None] + torch.minimum(place, counts[points][:, None] - 1)
        weight = torch.where(inside, nodes.weight[index], 0)
        t = nodes.t[index].flatten()
        gradients = _gradients(differentiation, segment, points.repeat_interleave(most), t)
        yield Integral(points, _summed(gradients, weight))


def joined(parts: list[Integral]) -> Integral:
    """psi at all points, with dense factors where groups of points have factors of different kinds."""

    def kind(factor: Factor) -> tuple[type, int]:
        return type(factor), 0 if isinstance(factor, Dense) else factor.positions

    first, *others = (one.gradients for one in parts)
    made = []
    for p, part in enumerate(first.parts):
        same = all(
            [kind(f) for f in part.factors] == [kind(f) for f in other.parts[p].factors]
            for other in others
        )
        made.append(same)
    all_gradients = [
        one.gradients if all(made) else _dense_where(one.gradients, [not same for same in made])
        for one in parts
    ]
    return Integral(torch.cat([one.points for one in parts]), concatenated(all_gradients))


def dense_as(gradients: Gradients, other: Gradients) -> Gradients:
    """Gradients that are dense where all factors of the other ones are, so that one product takes both."""
    return _dense_where(
        gradients, [all(isinstance(f, Dense) for f in part.factors) for part in other.parts]
    )


def _dense_where(gradients: Gradients, chosen: list[bool]) -> Gradients:
    parts = tuple(
        replace(part, factors=tuple(f.dense() for f in part.factors)) if dense else part
        for part, dense in zip(gradients.parts, chosen, strict=True)
    )
    return replace(gradients, parts=parts)


def _alike(counts: Tensor, rows: int) -> Iterator[Tensor]:
    """The points in order of their counts, cut where counts grow too much or rows become too many."""
    order = counts.argsort(stable=True)
    sizes = counts[order].tolist()
    start = 0
    for stop in range(1, len(sizes) + 1):
        if (
            stop == len(sizes)
            or sizes[stop] > SPREAD * sizes[start]
            or (stop + 1 - start) * sizes[stop] > rows
        ):
            yield order[start:stop]
            start = stop


def _gradients(
    differentiation: Differentiation, segment: Segment, index: Tensor, t: Tensor
) -> Gradients:
    flat = segment.x.flatten(1)
    if segment.by_rows and not differentiation.fallbacks:
        here = differentiation.at(segment.start)
        start = {name: ({**here.fixed, **here.leaves})[name] for name in segment.start}
        with segment.row_parameters(start, index, t):
            return here.gradients(flat[index], None)
    groups = groups_of(t)
    by_time = [
        differentiation.at(segment.at(value)).gradients(flat[index[rows]], None)
        for value, rows in groups
    ]
    order = torch.cat([rows for _, rows in groups]).argsort()
    # Gradients are cut by slices: one row at a time they come in their own order.
    whole = concatenated(by_time)
    return concatenated([whole[k : k + 1] for k in order.tolist()])


def _summed(gradients: Gradients, weight: Tensor) -> Gradients:
    """The weighted sums of gradients at (m q) rows over the q nodes of each of m points."""
    parts = tuple(
        ParameterGradient(
            part.weight, part.bias, tuple(_sum_of_nodes(f, weight) for f in part.factors)
        )
        for part in gradients.parts
    )
    return replace(gradients, parts=parts, points=len(weight))


def _sum_of_nodes(factor: Factor, weight: Tensor) -> Factor:
    m, q = weight.shape
    if isinstance(factor, Dense):
        values = torch.einsum("mqcs,mq->mcs", factor.values.unflatten(0, (m, q)), weight)
        return replace(factor, values=values)
    if not isinstance(factor, Outer):  # a table: rows picked at every node
        signals = factor.signals.unflatten(0, (m, q)) * weight[:, :, None, None, None]
        index = factor.index.unflatten(0, (m, q)).flatten(1)
        return replace(factor, index=index, signals=signals.transpose(1, 2).flatten(2, 3))
    signals, inputs = (v.unflatten(0, (m, q)) for v in (factor.signals, factor.inputs))
    if torch.equal(inputs, inputs[:, :1].expand_as(inputs)):
        signals = torch.einsum("mqcgpo,mq->mcgpo", signals, weight)
        return replace(factor, signals=signals, inputs=inputs[:, 0])
    if torch.equal(signals, signals[:, :1].expand_as(signals)):
        inputs = torch.einsum("mqgpa,mq->mgpa", inputs, weight)
        return replace(factor, signals=signals[:, 0], inputs=inputs)
    signals = signals * weight[:, :, None, None, None, None]
    outer = replace(
        factor,
        signals=signals.movedim(1, 3).flatten(3, 4),  # (m, c, g, q P, o)
        inputs=inputs.movedim(1, 2).flatten(2, 3),
    )
    # What an inner product with a gradient of one position costs: by signals and inputs, or dense.
    _, c, g, positions, o = outer.signals.shape
    a = outer.inputs.shape[3]
    factored = g * positions * (a + c * (o + 1 + ELEMENTWISE))
    return outer.dense() if c * g * o * a < factored else outer
