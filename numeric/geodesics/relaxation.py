r"""Polygonal lines relaxed under the energy of their chords in feature space.

For points $x_k$ at times $t_k$ the energy is $\sum_k |\Phi(x_{k+1}) - \Phi(x_k)|^2/(t_{k+1} - t_k)$. The
problem is preconditioned by a Cholesky factor of the stiffness matrix of a chain of springs, so that the
number of steps does not grow with that of nodes. A gradient is one forward and one backward pass, whether
the map has kinks or not.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from numeric.geodesics.chart import Chart, array
from numeric.geodesics.elements import Array
from numeric.inputs import InputError

STEPS = 500  # most steps of one relaxation
PRECISION = 1e-8  # relative decrease of the energy at which a relaxation stops
ROUNDS = 20  # most rounds of relaxing and equalising the segments
ENOUGH = 1e-5  # relative decrease of the length at which the rounds stop
CHORDS = 4  # in a segment, so that its length is right where it crosses a kink
PARTS = 2  # of a segment at first, when its length is integrated
EXACT = 1e-8  # relative error allowed in a part
HALVINGS = 20  # most halvings of a part
INSIDE = 1e-6  # share of a part that is kept off its ends, where a kink may lie


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
    total, limit = 0.0, None
    for _ in range(HALVINGS):
        steps = _on(nodes, right) - _on(nodes, left)
        places = [_on(nodes, left) + share * steps for share in (INSIDE, 0.5, 1 - INSIDE)]
        one, two, three = (chart.speeds(place, steps) for place in places)
        lengths = (one + 4 * two + three) / 6
        limit = limit or EXACT * lengths.sum()
        off = np.abs(one - 2 * two + three) > limit
        total += lengths[~off].sum()
        middle = (left[off] + right[off]) / 2
        left, right = np.append(left[off], middle), np.append(middle, right[off])
        if not off.any():
            return float(total)
    return float(total + lengths[off].sum())


def _on(nodes: Array, times: Array) -> Array:
    """Points of a polygonal line whose nodes are at times 0, 1, 2 and so on."""
    places = np.arange(len(nodes))
    return np.stack([np.interp(times, places, column) for column in nodes.T], 1)
