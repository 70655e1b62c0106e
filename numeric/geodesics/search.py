"""The search for geodesics from the origin of a chart: several starts, relaxed, sorted and refined."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from torch import Tensor

from numeric.geodesics.chart import Chart
from numeric.geodesics.elements import Array, Curve
from numeric.geodesics.geodesic import Geodesic
from numeric.geodesics.refinement import UNKNOWNS, refined
from numeric.geodesics.relaxation import even, followed, relaxed, tightened
from numeric.geodesics.variation import Variation, energy, length
from numeric.inputs import InputError, whole

DEGREE = 12  # of a piece
PIECES = 4  # at first
ROUGH = 1e-4  # share of the energy that the last step of a first relaxation gains
ALIKE = 0.05  # relaxed paths this close, beside their size, lead to one geodesic
SAME = 1e-4  # geodesics this close are one
SHORTER = 0.99  # a start that failed below this share of the length found may be what was sought
SEGMENTS = 128  # of a path that is relaxed only
ROWS = 2**12  # of derivatives that a search for singular points takes at most
FEW = 16  # segments that are relaxed from each start


@dataclass(frozen=True)
class Search:
    """Where geodesics are looked for, the straight line and random arcs, and how well they are met."""

    starts: int = 4
    seed: int = 0
    tolerance: float | None = None  # of the residual; by default 5e-7, or what smoothness allows

    def __post_init__(self) -> None:
        whole("starts", self.starts)
        whole("seed", self.seed, 0)
        if self.tolerance is not None and not 0 < self.tolerance < math.inf:
            raise InputError(f"tolerance = {self.tolerance} was given, but it must be above 0.")

    def lines(self, times: Array, end: Array) -> list[Array]:
        """Nodes (n, d) of each start; arcs bulge by about half the distance in coordinates."""
        rng = np.random.default_rng(self.seed)
        waves = np.sin(np.pi * np.outer(times, (1, 2))) / (2, 4)  # (n, 2)
        bulges = [rng.normal(size=(2, len(end))) for _ in range(self.starts - 1)]
        straight, size = np.outer(times, end), np.linalg.norm(end)
        return [straight, *(straight + size * waves @ bulge for bulge in bulges)]


STANDARD = Search()


def found(chart: Chart, p: Tensor, end: Array, search: Search) -> list[Geodesic]:
    """Geodesics from the origin to a displacement, shortest first; p is the origin in its own shape."""
    if PIECES * DEGREE * len(end) > UNKNOWNS:
        return [drawn(chart, p, end, SEGMENTS, search)]
    breaks = np.linspace(0, 1, PIECES + 1)
    still = Curve.through(breaks, np.zeros((DEGREE * PIECES + 1, len(end))))
    if not end.any():
        return [Geodesic(0.0, 0.0, 0.0, 1.0, True, p.detach(), still)]
    chart.refuse_singular(np.stack([np.zeros_like(end), end]))
    lines = search.lines(still.times, end)
    if chart.creases or _piecewise_linear(chart, Curve.through(breaks, lines[0])):
        return [drawn(chart, p, end, SEGMENTS, search)]
    geodesics, failures = [], []
    for curve in _distinct(chart, breaks, still.times, lines, failures):
        try:
            new = settled(chart, p, curve, search)
        except InputError as error:
            failures.append((energy(chart, curve), error))
            continue
        if all(_apart(new.curve, old.curve) > SAME for old in geodesics):
            geodesics.append(new)
    shortest = min((g.length for g in geodesics), default=math.inf)
    for lost, error in failures:
        if not geodesics or math.sqrt(lost) < SHORTER * shortest:
            raise error
    return sorted(geodesics, key=lambda geodesic: geodesic.length)


def settled(chart: Chart, p: Tensor, curve: Curve, search: Search) -> Geodesic:
    """The geodesic that a curve near it leads to."""
    curve, residual = refined(chart, curve, search.tolerance)
    return Geodesic(
        length(chart, curve),
        energy(chart, curve),
        residual,
        Variation.at(chart, curve).stability(),
        True,
        p.detach(),
        curve,
    )


def drawn(chart: Chart, p: Tensor, end: Array, segments: int, search: Search) -> Geodesic:
    """The shortest of the starts as a broken line, whose segments are doubled up to their number."""
    if not end.any():
        still = Curve.through(np.linspace(0, 1, segments + 1), np.zeros((segments + 1, len(end))))
        return Geodesic(0.0, 0.0, 0.0, None, False, p.detach(), still)
    chart.refuse_singular(np.stack([np.zeros_like(end), end]))
    counts = [segments, segments // 2]
    while counts[-1] > FEW:
        counts.append(counts[-1] // 2)
    lines = search.lines(np.linspace(0, 1, counts.pop() + 1), end)
    nodes = min((tightened(chart, line) for line in lines), key=partial(followed, chart))
    for count in reversed(counts):
        last, nodes = nodes, tightened(chart, even(chart, nodes, count)[0])
    chart.refuse_singular(nodes[:: 1 + nodes.size // ROWS])
    length, before = followed(chart, nodes), followed(chart, last)
    curve = Curve.through(np.linspace(0, 1, segments + 1), nodes)
    return Geodesic(length, length**2, abs(1 - before / length), None, False, p.detach(), curve)


def _distinct(
    chart: Chart, breaks: Array, times: Array, lines: list[Array], failures: list
) -> list[Curve]:
    """The starts relaxed roughly, without those that come to lie on another."""
    curves: list[Curve] = []
    for line in lines:
        try:
            curve = Curve.through(breaks, relaxed(chart, times, line, ROUGH))
        except InputError as error:  # a step left the domain, in which the line itself may lie
            curve = Curve.through(breaks, line)
            if not math.isfinite(energy(chart, curve)):
                failures.append((math.inf, error))
                continue
        if all(_apart(curve, other) > ALIKE for other in curves):
            curves.append(curve)
    return curves


def _apart(one: Curve, other: Curve) -> float:
    """How far two curves differ, over how far one goes."""
    times = other.times
    return float(np.abs(one.at(times) - other.nodes).max() / np.abs(other.nodes).max())


def _piecewise_linear(chart: Chart, curve: Curve) -> bool:
    """Whether second derivatives vanish everywhere on a curve, but first ones change along it."""
    nodes, end = curve.nodes, curve.nodes[-1:]
    transport = chart.transport(nodes, np.repeat(end, len(nodes), 0))
    J = transport.frame @ transport.stretch
    change = (J - J[:1]).abs().max()
    return not transport.bends.any() and bool(change > 1e-6 * J.abs().max())
