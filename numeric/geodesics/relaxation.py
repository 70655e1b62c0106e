r"""Broken lines relaxed under the energy of their chords in feature space.

For points $x_k$ at times $t_k$ it is $\sum_k |\Phi(x_{k+1}) - \Phi(x_k)|^2/(t_{k+1} - t_k)$. Nodes are
measured in the root of the matrix of a chain of springs, so that a long line relaxes as fast as a short
one. A gradient is one pass forwards and one back, whether the map has kinks or not.
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

STEPS = 500  # of one relaxation
PRECISION = 1e-8  # share of the energy that the last step gains
ROUNDS = 20  # of relaxing and evening out
ENOUGH = 1e-5  # share of the length that the last round gains
CHORDS = 4  # of a segment, so that its own length counts where it crosses a kink
PARTS = 2  # of a segment, for its length, before those with kinks are halved
EXACT = 1e-8  # share of the length that a part may be off by
HALVINGS = 20  # of a part
INSIDE = 1e-6  # of a part, between a place and its end, where there may be a kink


def relaxed(chart: Chart, times: Array, nodes: Array, precision: float, chords: int = 1) -> Array:
    """Nodes (n, d) of less energy with the ends kept, until a step lowers it by less than a share."""
    places = np.arange(len(times))
    fine = np.linspace(0, places[-1], places[-1] * chords + 1)
    weave = np.maximum(0, 1 - np.abs(fine[:, None] - places))  # nodes to points, (m, n)
    steps = np.diff(np.interp(fine, places, times))
    root = np.linalg.cholesky(_chain(times)[1:-1, 1:-1])

    def placed(z: Array) -> Array:
        inner = solve_triangular(root.T, z.reshape(len(root), -1))
        return np.concatenate([nodes[:1], inner, nodes[-1:]])

    def energy(z: Array) -> tuple[float, Array]:
        features, back = chart.pull(weave @ placed(z))
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
    scale = energy(start)[0] or 1.0  # so that the share is one of the energy, however small

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


def tightened(chart: Chart, nodes: Array) -> Array:
    """A broken line relaxed at constant speed, nodes (n, d).

    A node beside a kink finds it uphill to the other side, so that the times at which kinks are
    crossed would stay what they were. So nodes are moved to equal lengths along the line in turn.
    """
    count = len(nodes) - 1
    nodes, length = even(chart, nodes, count)
    for _ in range(ROUNDS):
        moved = relaxed(chart, np.linspace(0, 1, count + 1), nodes, PRECISION, CHORDS)
        moved, new = even(chart, moved, count)
        if not new < length:
            break
        gain, nodes, length = 1 - new / length, moved, new
        if gain < ENOUGH:
            break
    return nodes


def even(chart: Chart, nodes: Array, segments: int) -> tuple[Array, float]:
    """Nodes (segments + 1, d) at equal lengths along a broken line, and its length; both by chords."""
    times = np.linspace(0, len(nodes) - 1, (len(nodes) - 1) * CHORDS + 1)
    features = chart.features.features(chart.places(_on(nodes, times)))
    chords = array(torch.linalg.vector_norm(features.diff(dim=0), dim=1))
    passed = np.concatenate([[0.0], np.cumsum(chords)])
    at = np.interp(np.linspace(0, passed[-1], segments + 1), passed, times)
    return _on(nodes, at), float(passed[-1])


def followed(chart: Chart, nodes: Array) -> float:
    """The length of a broken line, by Simpson's rule on parts that are halved where they have kinks."""
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
    """Points of a broken line, whose nodes are at 0, 1, 2 and so on."""
    places = np.arange(len(nodes))
    return np.stack([np.interp(times, places, column) for column in nodes.T], 1)
