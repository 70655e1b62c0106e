"""The search for geodesics from the origin of a chart: several starts, relaxed, compared and refined."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from torch import Tensor

from numeric.geodesics.chart import Chart
from numeric.geodesics.elements import Array, Curve
from numeric.geodesics.geodesic import Geodesic
from numeric.geodesics.refinement import UNKNOWNS, refine_curve
from numeric.geodesics.relaxation import (
    equalise_segments,
    line_length,
    relax_at_constant_speed,
    relax_nodes,
)
from numeric.geodesics.variation import Variation, energy, length
from numeric.inputs import InputError, whole

DEGREE = 12  # of a piece
PIECES = 4  # before refinement
ROUGH = 1e-4  # relative decrease of the energy at which the first relaxation stops
ALIKE = 0.05  # relative difference below which relaxed paths lead to the same geodesic
SAME = 1e-4  # relative difference below which geodesics are the same
SHORTER = 0.99  # a failed start below this share of the shortest length raises its error
SEGMENTS = 128  # of a path that is only relaxed
ROWS = 2**12  # nodes are thinned to about this many coordinates to be checked for singular points
FEW = 16  # segments of the first relaxation from each start


@dataclass(frozen=True)
class Search:
    """Starting curves, the straight line and random arcs, and the tolerance of the residual."""

    starts: int = 4
    seed: int = 0
    tolerance: float | None = (
        None  # of the residual; by default 5e-7, or what the smoothness of the map allows
    )

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


def find_geodesics(chart: Chart, p: Tensor, end: Array, search: Search) -> list[Geodesic]:
    """Geodesics from the origin to the displacement `end`, shortest first; p is the origin, not flattened."""
    if PIECES * DEGREE * len(end) > UNKNOWNS:
        return [relaxed_geodesic(chart, p, end, SEGMENTS, search)]
    breaks = np.linspace(0, 1, PIECES + 1)
    constant = Curve.through(breaks, np.zeros((DEGREE * PIECES + 1, len(end))))
    if not end.any():
        return [Geodesic(0.0, 0.0, 0.0, 1.0, True, p.detach(), constant)]
    chart.require_nonsingular(np.stack([np.zeros_like(end), end]))
    lines = search.lines(constant.times, end)
    if chart.kinks or _piecewise_linear(chart, Curve.through(breaks, lines[0])):
        return [relaxed_geodesic(chart, p, end, SEGMENTS, search)]
    geodesics, failures = [], []
    for curve in _distinct(chart, breaks, constant.times, lines, failures):
        try:
            new = refined_geodesic(chart, p, curve, search)
        except InputError as error:
            failures.append((energy(chart, curve), error))
            continue
        if all(_relative_difference(new.curve, old.curve) > SAME for old in geodesics):
            geodesics.append(new)
    shortest = min((g.length for g in geodesics), default=math.inf)
    for failed_energy, error in failures:
        if not geodesics or math.sqrt(failed_energy) < SHORTER * shortest:
            raise error
    return sorted(geodesics, key=lambda geodesic: geodesic.length)


def refined_geodesic(chart: Chart, p: Tensor, curve: Curve, search: Search) -> Geodesic:
    """The geodesic to which a nearby curve converges."""
    curve, residual = refine_curve(chart, curve, search.tolerance)
    return Geodesic(
        length(chart, curve),
        energy(chart, curve),
        residual,
        Variation.at(chart, curve).stability(),
        True,
        p.detach(),
        curve,
    )


def relaxed_geodesic(
    chart: Chart, p: Tensor, end: Array, segments: int, search: Search
) -> Geodesic:
    """The shortest relaxed start, a polygonal line whose segments are doubled up to `segments`."""
    if not end.any():
        constant = Curve.through(
            np.linspace(0, 1, segments + 1), np.zeros((segments + 1, len(end)))
        )
        return Geodesic(0.0, 0.0, 0.0, None, False, p.detach(), constant)
    chart.require_nonsingular(np.stack([np.zeros_like(end), end]))
    counts = [segments, segments // 2]
    while counts[-1] > FEW:
        counts.append(counts[-1] // 2)
    lines = search.lines(np.linspace(0, 1, counts.pop() + 1), end)
    nodes = min(
        (relax_at_constant_speed(chart, line) for line in lines), key=partial(line_length, chart)
    )
    for count in reversed(counts):
        last, nodes = (
            nodes,
            relax_at_constant_speed(chart, equalise_segments(chart, nodes, count)[0]),
        )
    chart.require_nonsingular(nodes[:: 1 + nodes.size // ROWS])
    length, before = line_length(chart, nodes), line_length(chart, last)
    curve = Curve.through(np.linspace(0, 1, segments + 1), nodes)
    return Geodesic(length, length**2, abs(1 - before / length), None, False, p.detach(), curve)


def _distinct(
    chart: Chart, breaks: Array, times: Array, lines: list[Array], failures: list
) -> list[Curve]:
    """The starts after a rough relaxation, without duplicates."""
    curves: list[Curve] = []
    for line in lines:
        try:
            curve = Curve.through(breaks, relax_nodes(chart, times, line, ROUGH))
        except InputError as error:  # a step left the domain; the line itself may lie in it
            curve = Curve.through(breaks, line)
            if not math.isfinite(energy(chart, curve)):
                failures.append((math.inf, error))
                continue
        if all(_relative_difference(curve, other) > ALIKE for other in curves):
            curves.append(curve)
    return curves


def _relative_difference(one: Curve, other: Curve) -> float:
    """The largest distance of two curves in coordinates, relative to the extent of one."""
    times = other.times
    return float(np.abs(one.at(times) - other.nodes).max() / np.abs(other.nodes).max())


def _piecewise_linear(chart: Chart, curve: Curve) -> bool:
    """Whether on a curve all second derivatives vanish, but first derivatives change."""
    nodes, end = curve.nodes, curve.nodes[-1:]
    transport = chart.transport(nodes, np.repeat(end, len(nodes), 0))
    J = transport.frame @ transport.stretch
    change = (J - J[:1]).abs().max()
    return not transport.bends.any() and bool(change > 1e-6 * J.abs().max())
