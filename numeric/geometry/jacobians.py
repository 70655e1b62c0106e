"""Jacobians in float64 by passes through a map, as many at once as a budget of memory allows.

The mode is forward, a pass for each input, or reverse, a pass for each feature, whichever takes fewer.
What one pass needs is measured on the first point. A Jacobian with more features than the budget
can hold is reduced as its rows arrive, to rows with the same singular values.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from tqdm import tqdm

from numeric.geometry.derivatives import along
from numeric.geometry.scaled_qr import compressed
from numeric.inputs import InputError
from numeric.models.feature_map import Opened
from numeric.models.memory_meter import Meter
from numeric.models.output_checks import check_slope

COPIES = 8  # of a Jacobian, that its factorisation may hold
ENTRY = 8  # bytes of a float64
MOST = 16  # rows at once by reverse mode; more are no faster
KNOWN = 32  # in units of the dtype's epsilon: how well a pass through a deep network knows a row

Scaled = tuple[Tensor, Tensor]  # log scales (m, n) and rows (m, n, d)
Take = Callable[[Tensor, tqdm], Scaled]


@dataclass(frozen=True)
class Plan:
    """How many points and passes at once."""

    take: Take
    points: int
    passes: int  # for one point


def tolerance(f: Opened) -> float:
    """How far a row of the Jacobian is known, relative to its length; for `scaled_qr`."""
    return max(KNOWN * f.epsilon, max(f.count, f.points.shape[1]) * torch.finfo(torch.float64).eps)


def jacobians(f: Opened, memory: int, progress: bool = True) -> Iterator[Scaled]:
    """Matrices with the singular values of the Jacobians, for some points at a time."""
    plan = _plan(f, memory)
    total = plan.passes * len(f.points)
    done = 0
    with tqdm(total=total, desc="derivatives", disable=not progress, leave=False) as bar:
        for x in f.points.split(plan.points):
            logs, rows = plan.take(x, bar)
            bad = ~rows.isfinite().all((1, 2))
            if bad.any():
                raise InputError(
                    f"The map's derivatives at point {done + int(bad.nonzero()[0])} are NaN or infinite: "
                    "move the point, or mend the map there."
                )
            done += len(x)
            yield logs, rows


def _plan(f: Opened, memory: int) -> Plan:
    n, d = f.points.shape
    p = f.count
    whole, least = (COPIES * ENTRY * rows * d for rows in (p, min(p, 2 * d)))
    graph, row, together = _measure(f)
    check_slope(f, _along, f.points[:1])
    column = _column(f) if d < p and whole < memory else None
    if column is not None and whole + column <= memory:
        m = _between(memory // 2 // whole, n)
        lanes = _between((memory - m * whole) // column, m * d)
        return Plan(partial(_forward, f, lanes), m, d)
    if (need := graph + row + least) > memory:
        raise InputError(
            f"memory = {memory} bytes was given, but one row of the {p} x {d} Jacobian at a time needs "
            f"{need}: give at least that, or pick a layer with fewer features."
        )
    most = MOST if together else 1
    if graph + row + whole > memory:
        room = max(2 * d, (memory - graph) // 2 // (COPIES * ENTRY * d))  # rows
        lanes = (memory - graph - COPIES * ENTRY * room * d) // row
        return Plan(partial(_reduced, f, _between(lanes, min(room - d, most)), room), 1, p)
    m = _between(memory // 2 // (whole + graph), n)
    lanes = (memory - m * (whole + graph)) // (m * row)
    return Plan(partial(_reverse, f, _between(lanes, min(p, most))), m, p)


def _between(value: int, most: int) -> int:
    return max(1, min(value, most))


def _forward(f: Opened, lanes: int, x: Tensor, bar: tqdm) -> Scaled:
    """A pass for each point and coordinate, `lanes` at once."""
    m, d = x.shape
    rows = x.new_empty(m, f.count, d, dtype=torch.float64)
    units = torch.eye(d, dtype=x.dtype, device=x.device)
    for some in torch.arange(m * d, device=x.device).split(lanes):
        point, axis = some // d, some % d
        rows[point, :, axis] = along(f, x[point], units[axis]).double()
        bar.update(len(some))
    return rows.new_zeros(rows.shape[:2]), rows


def _reverse(f: Opened, lanes: int, x: Tensor, bar: tqdm) -> Scaled:
    """A pass for each feature, `lanes` at once, and for all points."""
    rows = x.new_empty(len(x), f.count, x.shape[1], dtype=torch.float64)
    x, out = _graph(f, x)
    for some in torch.arange(f.count, device=x.device).split(lanes):
        rows[:, some] = _pull(x, out, some).movedim(0, 1).double()
        bar.update(len(some) * len(x))
    return rows.new_zeros(rows.shape[:2]), rows


def _reduced(f: Opened, lanes: int, room: int, x: Tensor, bar: tqdm) -> Scaled:
    """The same for one point, with rows that are compressed to d of them when there is no more room."""
    d, known = x.shape[1], tolerance(f)
    rows = x.new_empty(0, d, dtype=torch.float64)
    logs = rows.new_empty(0)
    x, out = _graph(f, x)
    for some in torch.arange(f.count, device=x.device).split(lanes):
        new = _pull(x, out, some)[:, 0].double()
        if len(rows) + len(new) > room:
            logs, rows = compressed(logs, rows, known)
        rows = torch.cat([rows, new])
        logs = torch.cat([logs, logs.new_zeros(len(new))])
        bar.update(len(some))
    return logs[None], rows[None]


def _graph(f: Opened, x: Tensor) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        x = x.clone().requires_grad_()
        return x, f(x)


def _pull(x: Tensor, out: Tensor, features: Tensor) -> Tensor:
    """Derivatives of (m, p) outputs by (m, d) inputs: (k,) -> (k, m, d)."""
    ways = out.new_zeros(len(features), *out.shape)
    ways[torch.arange(len(features), device=out.device), :, features] = 1
    kept = partial(torch.autograd.grad, out, x, retain_graph=True)
    if len(features) == 1:
        return kept(ways[0])[0][None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # where torch itself goes row by row
        return kept(ways, is_grads_batched=True)[0]


def _measure(f: Opened) -> tuple[int, int, bool]:
    """Bytes of the graph of one point and of one row, and whether torch takes rows together."""
    first = torch.arange(min(2, f.count), device=f.points.device)
    try:
        with Meter() as forward:
            x, out = _graph(f, f.points[:1])
        with Meter() as back:
            _pull(x, out, first[:1])
    except RuntimeError as error:
        raise InputError(
            f"torch finds no way from the features back to the points ({str(error).splitlines()[0]}): write "
            "the map with differentiable torch operations, without detach, no_grad, rounding or numpy."
        ) from None
    try:
        with Meter() as both:
            _pull(x, out, first)
    except RuntimeError:
        return forward.peak, back.peak, False
    return forward.peak, max(back.peak, both.peak // 2), True


def _along(f: Opened, x: Tensor, u: Tensor) -> Tensor:
    """J u by forward mode, or where torch has none by reverse mode twice."""
    try:
        return along(f, x, u)
    except InputError:
        x, out = _graph(f, x)
        with torch.enable_grad():
            way = torch.zeros_like(out, requires_grad=True)
            (back,) = torch.autograd.grad(out, x, way, create_graph=True)
        return torch.autograd.grad(back, way, u)[0]


def _column(f: Opened) -> int | None:
    """Bytes of one forward pass, or None where torch knows no forward derivative."""
    x = f.points[:1]
    try:
        with Meter() as meter:
            along(f, x, torch.ones_like(x))
    except InputError:
        return None
    return meter.peak
