"""Jacobians in float64 by passes through a map, as many at once as a budget of memory allows.

Forward mode takes one pass for each input, reverse mode one for each feature; the one with fewer passes is
used. The memory of one pass is measured at the first point. If a Jacobian does not fit into the budget, its
rows are compressed by a QR as they arrive, which keeps the singular values. Of a map in float32 with fewer
features than inputs one copy of the Jacobian is enough: the root of the Gram matrix of its rows at unit
length, in float64, knows each to 1e-7 of its length, below what derivatives in float32 know.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from numeric.geometry.derivatives import Map, along
from numeric.geometry.scaled_qr import compressed
from numeric.inputs import InputError
from numeric.models.memory import Meter
from numeric.models.model import EvaluatedMap
from numeric.models.output_checks import check_first_derivative
from numeric.progress import progress_bar

__all__ = ["COPIES", "ENTRY", "Plan", "Scaled", "graph", "jacobians", "slope_along", "tolerance"]

COPIES = 8  # of a Jacobian that its factorisation may hold
ENTRY = 8  # bytes of a float64
PANEL = 2**22  # entries of a Jacobian in float64 at a time, for its Gram matrix
MAX_LANES = 16  # rows at once in reverse mode; more are no faster
WIDEST = 2**24  # bytes of rows at once, of all points; more leave the caches and are slower
ROW_PRECISION = 32  # relative error of a row of a deep network's Jacobian, in epsilons of the dtype

Scaled = tuple[Tensor, Tensor]  # log scales (m, n) and rows (m, n, d)
Count = Callable[[int], object]  # takes how many derivatives more are done
Differentiate = Callable[[Tensor, Count], Scaled]


@dataclass(frozen=True)
class Plan:
    """How Jacobians are computed, and for how many points at once."""

    differentiate: Differentiate
    points: int
    passes: int  # for one point


def tolerance(f: EvaluatedMap) -> float:
    """The uncertainty of a row of the Jacobian, relative to its length; for `scaled_qr`."""
    return max(
        ROW_PRECISION * f.epsilon, max(f.count, f.points.shape[1]) * torch.finfo(torch.float64).eps
    )


def jacobians(f: EvaluatedMap, memory: int, progress: bool = True) -> Iterator[Scaled]:
    """Yield matrices with the singular values of the Jacobians, for a chunk of points at a time."""
    plan = _plan(f, memory)
    total = plan.passes * len(f.points)
    first = 0
    with progress_bar(of="derivatives", show=progress, total=total) as bar:
        for x in f.points.split(plan.points):
            logs, rows = plan.differentiate(x, bar.update)
            bad = ~rows.isfinite().all((1, 2))
            if bad.any():
                raise InputError(
                    f"The map's derivatives at point {first + int(bad.nonzero()[0])} are NaN or infinite: "
                    "move the point, or mend the map there."
                )
            first += len(x)
            yield logs, rows


def _plan(f: EvaluatedMap, memory: int) -> Plan:
    n, d = f.points.shape
    p = f.count
    whole, smallest = (COPIES * ENTRY * rows * d for rows in (p, min(p, 2 * d)))
    graph, row, batched = _measure(f)
    check_first_derivative(f, slope_along, f.points[:1])
    column = _column(f) if d < p and whole < memory else None
    if column is not None and whole + column <= memory:
        m = _clamp(memory // 2 // whole, n)
        lanes = _clamp((memory - m * whole) // column, m * d)
        return Plan(partial(_forward, f, lanes), m, d)
    max_lanes = _clamp(WIDEST // row, MAX_LANES) if batched else 1
    need = graph + row + smallest
    if need > memory and p < d and f.points.dtype == torch.float32:
        need = graph + row + f.points.element_size() * p * d + ENTRY * (PANEL + d + COPIES * p * p)
        if need <= memory:
            lanes = (memory - need) // row
            return Plan(partial(_gram_root, f, _clamp(lanes, min(p, max_lanes))), 1, p)
    if need > memory:
        raise InputError(
            f"memory = {memory} bytes was given, but one row of the {p} x {d} Jacobian at a time needs "
            f"{need}: give at least that, or pick a layer with fewer features."
        )
    if graph + row + whole > memory:
        capacity = max(2 * d, (memory - graph) // 2 // (COPIES * ENTRY * d))  # rows
        lanes = (memory - graph - COPIES * ENTRY * capacity * d) // row
        return Plan(
            partial(_reduced, f, _clamp(lanes, min(capacity - d, max_lanes)), capacity), 1, p
        )
    m = _clamp(memory // 2 // (whole + graph), n)
    lanes = min(memory - m * (whole + graph), WIDEST) // (m * row)
    return Plan(partial(_reverse, f, _clamp(lanes, min(p, max_lanes))), m, p)


def _clamp(value: int, largest: int) -> int:
    return max(1, min(value, largest))


def _forward(f: EvaluatedMap, lanes: int, x: Tensor, done: Count) -> Scaled:
    """A pass for each point and coordinate, `lanes` at once."""
    m, d = x.shape
    rows = x.new_empty(m, f.count, d, dtype=torch.float64)
    units = torch.eye(d, dtype=x.dtype, device=x.device)
    for block in torch.arange(m * d, device=x.device).split(lanes):
        point, axis = block // d, block % d
        rows[point, :, axis] = along(f, x[point], units[axis]).double()
        done(len(block))
    return rows.new_zeros(rows.shape[:2]), rows


def _reverse(f: EvaluatedMap, lanes: int, x: Tensor, done: Count) -> Scaled:
    """A pass for each feature, `lanes` at once, and for all points."""
    rows = x.new_empty(len(x), f.count, x.shape[1], dtype=torch.float64)
    x, out = graph(f, x)
    for block in torch.arange(f.count, device=x.device).split(lanes):
        rows[:, block] = _vjp(x, out, block).movedim(0, 1).double()
        done(len(block) * len(x))
    return rows.new_zeros(rows.shape[:2]), rows


def _reduced(f: EvaluatedMap, lanes: int, capacity: int, x: Tensor, done: Count) -> Scaled:
    """Reverse mode for one point; the rows are compressed to d of them whenever `capacity` is reached."""
    d, row_tolerance = x.shape[1], tolerance(f)
    rows = x.new_empty(0, d, dtype=torch.float64)
    logs = rows.new_empty(0)
    x, out = graph(f, x)
    for block in torch.arange(f.count, device=x.device).split(lanes):
        new = _vjp(x, out, block)[:, 0].double()
        if len(rows) + len(new) > capacity:
            logs, rows = compressed(logs, rows, row_tolerance)
        rows = torch.cat([rows, new])
        logs = torch.cat([logs, logs.new_zeros(len(new))])
        done(len(block))
    return logs[None], rows[None]


def _gram_root(f: EvaluatedMap, lanes: int, x: Tensor, done: Count) -> Scaled:
    """Reverse mode for one point, and (U U^T)^(1/2) of the rows of J at unit length, beside their logs.

    At unit length rounding is small beside each row, however short; rows of zeros stay out by their logs.
    """
    J = x.new_empty(f.count, x.shape[1])
    x, out = graph(f, x)
    for block in torch.arange(f.count, device=x.device).split(lanes):
        J[block] = _vjp(x, out, block)[:, 0]
        done(len(block))
    gram = torch.zeros(f.count, f.count, dtype=torch.float64, device=x.device)
    for columns in J.split(max(1, PANEL // f.count), dim=1):
        part = columns.double()
        gram += part @ part.mT
    if not gram.isfinite().all():
        return gram.new_zeros(1, f.count), gram[None]  # refused by the caller
    lengths = gram.diagonal().sqrt()
    inverse = torch.where(lengths > 0, 1 / lengths, 0)
    values, axes = torch.linalg.eigh(gram.mul_(inverse).mul_(inverse[:, None]))
    root = axes * values.clamp(min=0).sqrt() @ axes.mT
    return lengths.log()[None], root[None]


def graph(f: Map, x: Tensor) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        x = x.clone().requires_grad_()
        return x, f(x)


def _vjp(x: Tensor, out: Tensor, features: Tensor) -> Tensor:
    """Derivatives of (m, p) outputs by (m, d) inputs: (k,) -> (k, m, d)."""
    cotangents = out.new_zeros(len(features), *out.shape)
    cotangents[torch.arange(len(features), device=out.device), :, features] = 1
    backward = partial(torch.autograd.grad, out, x, retain_graph=True)
    if len(features) == 1:
        return backward(cotangents[0])[0][None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # from operations that torch cannot batch
        return backward(cotangents, is_grads_batched=True)[0]


def _measure(f: EvaluatedMap) -> tuple[int, int, bool]:
    """Bytes of the graph of one point and of one row, and whether torch can batch rows."""
    first = torch.arange(min(2, f.count), device=f.points.device)
    try:
        with Meter() as forward:
            x, out = graph(f, f.points[:1])
        with Meter() as back:
            _vjp(x, out, first[:1])
    except RuntimeError as error:
        raise InputError(
            f"torch finds no way from the features back to the points ({str(error).splitlines()[0]}): write "
            "the map with differentiable torch operations, without detach, no_grad, rounding or numpy."
        ) from None
    try:
        with Meter() as both:
            _vjp(x, out, first)
    except RuntimeError:
        return forward.peak, back.peak, False
    return forward.peak, max(back.peak, both.peak // 2), True


def slope_along(f: Map, x: Tensor, u: Tensor) -> Tensor:
    """J u by forward mode, or by reverse mode twice where torch has no forward mode."""
    try:
        return along(f, x, u)
    except InputError:
        x, out = graph(f, x)
        with torch.enable_grad():
            cotangent = torch.zeros_like(out, requires_grad=True)
            (back,) = torch.autograd.grad(out, x, cotangent, create_graph=True)
        return torch.autograd.grad(back, cotangent, u)[0]


def _column(f: EvaluatedMap) -> int | None:
    """Bytes of one pass in forward mode, or None where torch has no forward mode."""
    x = f.points[:1]
    try:
        with Meter() as meter:
            along(f, x, torch.ones_like(x))
    except InputError:
        return None
    return meter.peak
