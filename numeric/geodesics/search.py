r"""The search for geodesics from the origin of a chart: several starts, relaxed, compared and refined.

Polygonal lines are relaxed under the energy of their chords in feature space: for points $x_k$ at times
$t_k$ it is $\sum_k |\Phi(x_{k+1}) - \Phi(x_k)|^2/(t_{k+1} - t_k)$. The problem is preconditioned by a
Cholesky factor of the stiffness matrix of a chain of springs, so that the number of steps does not grow with
that of nodes. A gradient is one forward and one backward pass, whether the map has kinks or not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from torch import Tensor

from numeric.geodesics.chart import Chart, array
from numeric.geodesics.elements import Array, Curve
from numeric.geodesics.geodesic import Geodesic
from numeric.geodesics.refinement import UNKNOWNS, refine_curve
from numeric.geodesics.variation import Variation, energy, length
from numeric.inputs import InputError, positive, whole

__all__ = [
    "SEGMENTS", "STANDARD", "Search", "equalise_segments", "find_geodesics", "line_length",
    "refined_geodesic", "relax_at_constant_speed", "relax_nodes", "relaxed_geodesic", "require_search",
]  # fmt: skip

DEGREE = 12  # of a piece
PIECES = 4  # before refinement
ROUGH = 1e-4  # relative decrease of the energy at which the first relaxation stops
ALIKE = 0.05  # relative difference below which relaxed paths lead to the same geodesic
SAME = 1e-4  # relative difference below which geodesics are the same
SHORTER = 0.99  # a failed start below this share of the shortest length raises its error
SEGMENTS = 128  # of a path that is only relaxed
ROWS = 2**12  # nodes are thinned to about this many coordinates to be checked for singular points
FEW = 16  # segments of the first relaxation from each start
STEPS = 500  # most steps of one relaxation
PRECISION = 1e-8  # relative decrease of the energy at which a relaxation stops
ROUNDS = 20  # most rounds of relaxing and equalising the segments
ENOUGH = 1e-5  # relative decrease of the length at which the rounds stop
CHORDS = 4  # in a segment, so that its length is right where it crosses a kink
PARTS = 2  # of a segment at first, when its length is integrated
EXACT = 1e-8  # relative error allowed in a part
HALVINGS = 20  # most halvings of a part
INSIDE = 1e-6  # share of a part left out at its ends, where a kink may lie


@dataclass(frozen=True)
class Search:
    """Starting curves, the straight line and random arcs, and the tolerance of the residual.

    The tolerance is an angle; by default 5e-7, or what the smoothness of the map allows. Refused are starts
    below 1, seeds below 0 and tolerances that are not above 0.

    >>> Search(starts=2)
    Search(starts=2, seed=0, tolerance=None)
    """

    starts: int = 4
    seed: int = 0
    tolerance: float | None = None

    def __post_init__(self) -> None:
        whole("starts", self.starts)
        whole("seed", self.seed, 0)
        if self.tolerance is not None:
            positive("tolerance", self.tolerance)

    def lines(self, times: Array, end: Array) -> list[Array]:
        """Nodes (n, d) of each start; arcs bulge by about half the distance in coordinates."""
        rng = np.random.default_rng(self.seed)
        waves = np.sin(np.pi * np.outer(times, (1, 2))) / (2, 4)  # (n, 2)
        bulges = [rng.normal(size=(2, len(end))) for _ in range(self.starts - 1)]
        straight, size = np.outer(times, end), np.linalg.norm(end)
        return [straight, *(straight + size * waves @ bulge for bulge in bulges)]


STANDARD = Search()


def require_search(search: Search) -> None:
    """Refuse anything else where a `Search` is meant."""
    if not isinstance(search, Search):
        raise InputError(
            f"search = {search!r} was given, but a geodesics.Search is needed, such as Search(starts=4)."
        )


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
    nodes = last = min(
        (relax_at_constant_speed(chart, line) for line in lines), key=partial(line_length, chart)
    )
    for count in reversed(counts):
        last = nodes
        nodes = relax_at_constant_speed(chart, equalise_segments(chart, nodes, count)[0])
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
    derivative = chart.covariant_derivative(nodes, np.repeat(end, len(nodes), 0))
    J = derivative.Q @ derivative.R
    change = (J - J[:1]).abs().max()
    return not derivative.H.any() and bool(change > 1e-6 * J.abs().max())


def relax_nodes(
    chart: Chart, times: Array, nodes: Array, precision: float, chords: int = 1
) -> Array:
    """Minimise the energy over inner nodes (n, d), until its relative decrease is below `precision`."""
    places = np.arange(len(times))
    fine = np.linspace(0, places[-1], places[-1] * chords + 1)
    weave = np.maximum(0, 1 - np.abs(fine[:, None] - places))  # nodes to points, (m, n)
    steps = np.diff(np.interp(fine, places, times))
    root = np.linalg.cholesky(_chain(times)[1:-1, 1:-1])

    def placed(z: Array) -> Array:
        inner = solve_triangular(root.T, z.reshape(len(root), -1))
        return np.concatenate([nodes[:1], inner, nodes[-1:]])

    def energy(z: Array) -> tuple[float, Array]:
        features, back = chart.vjp(weave @ placed(z))
        rates = features.diff(dim=0) / torch.as_tensor(steps).to(features)[:, None]
        total = float((rates * features.diff(dim=0)).sum())
        if not math.isfinite(total):
            raise InputError(
                "The map gives NaN or infinity on the way from one point to the other: mend it there, or "
                "take points on one side."
            )
        none = torch.zeros_like(rates[:1])
        slope = weave.T @ array(back(2 * torch.cat([none, rates]) - 2 * torch.cat([rates, none])))
        return total, solve_triangular(root, slope[1:-1], lower=True).ravel()

    start = (root.T @ nodes[1:-1]).ravel()
    scale = energy(start)[0] or 1.0  # ftol is relative only for values above 1

    def scaled(z: Array) -> tuple[float, Array]:
        total, slope = energy(z)
        return total / scale, slope / scale

    limits = {"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": precision, "gtol": 0.0}
    return placed(minimize(scaled, start, jac=True, method="L-BFGS-B", options=limits).x)


def _chain(times: Array) -> Array:
    """The matrix of springs of stiffness 1/(t_{k+1} - t_k) between neighbours, (n, n)."""
    stiff = 1 / np.diff(times)
    ends = np.concatenate([[0.0], stiff, [0.0]])
    return np.diag(ends[1:] + ends[:-1]) - np.diag(stiff, 1) - np.diag(stiff, -1)


def relax_at_constant_speed(chart: Chart, nodes: Array) -> Array:
    """Relax a polygonal line at constant speed, nodes (n, d).

    A node next to a kink would have to go uphill to cross it, so the times at which kinks are crossed would
    never change. So relaxing alternates with moving the nodes to equal distances along the line.
    """
    count = len(nodes) - 1
    nodes, length = equalise_segments(chart, nodes, count)
    for _ in range(ROUNDS):
        candidate = relax_nodes(chart, np.linspace(0, 1, count + 1), nodes, PRECISION, CHORDS)
        candidate, new = equalise_segments(chart, candidate, count)
        if not new < length:
            break
        gain, nodes, length = 1 - new / length, candidate, new
        if gain < ENOUGH:
            break
    return nodes


def equalise_segments(chart: Chart, nodes: Array, segments: int) -> tuple[Array, float]:
    """Nodes (segments + 1, d) at equal distances along a polygonal line, and its length; both by chords."""
    times = np.linspace(0, len(nodes) - 1, (len(nodes) - 1) * CHORDS + 1)
    features = chart.features.features(chart.places(_on(nodes, times)))
    chords = array(torch.linalg.vector_norm(features.diff(dim=0), dim=1))
    passed = np.concatenate([[0.0], np.cumsum(chords)])
    at = np.interp(np.linspace(0, passed[-1], segments + 1), passed, times)
    return _on(nodes, at), float(passed[-1])


def line_length(chart: Chart, nodes: Array) -> float:
    """The length of a polygonal line, by Simpson's rule on parts, which are halved at kinks."""
    left = np.linspace(0, len(nodes) - 1, (len(nodes) - 1) * PARTS + 1)
    left, right = left[:-1], left[1:]
    total, rest, limit = 0.0, 0.0, None
    for _ in range(HALVINGS):
        steps = _on(nodes, right) - _on(nodes, left)
        places = [_on(nodes, left) + share * steps for share in (INSIDE, 0.5, 1 - INSIDE)]
        one, two, three = (chart.speeds(place, steps) for place in places)
        lengths = (one + 4 * two + three) / 6
        limit = limit or EXACT * lengths.sum()
        off = np.abs(one - 2 * two + three) > limit
        total, rest = total + lengths[~off].sum(), lengths[off].sum()
        middle = (left[off] + right[off]) / 2
        left, right = np.append(left[off], middle), np.append(middle, right[off])
        if not off.any():
            return float(total)
    return float(total + rest)


def _on(nodes: Array, times: Array) -> Array:
    """Points of a polygonal line whose nodes are at times 0, 1, 2 and so on."""
    places = np.arange(len(nodes))
    return np.stack([np.interp(times, places, column) for column in nodes.T], 1)
