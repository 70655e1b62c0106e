r"""Curves relaxed under the energy of their chords in feature space.

For nodes $x_k$ at times $t_k$ it is $\sum_k |\Phi(x_{k+1}) - \Phi(x_k)|^2/(t_{k+1} - t_k)$, a quadratic form
in the features with the matrix of a chain of springs. Nodes are measured in its root, so that a long
chain relaxes as fast as a short one. A gradient is one pass forwards and one back, kinks or not.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from analytic.domain import InputError
from numeric.geodesics.chart import Chart, array
from numeric.geodesics.elements import Array

STEPS = 500  # of one relaxation
PRECISION = 1e-8  # share of the energy that the last step gains
ROUNDS = 20  # of relaxing and evening out
ENOUGH = 1e-5  # share of the length that the last round gains
PARTS = 16  # of a segment, for its length


def relaxed(chart: Chart, times: Array, nodes: Array, precision: float) -> Array:
    """Nodes (n, d) of less energy with the ends kept, until a step lowers it by less than a share."""
    springs = chain(times)
    root = np.linalg.cholesky(springs[1:-1, 1:-1])

    def placed(z: Array) -> Array:
        inner = solve_triangular(root.T, z.reshape(len(root), -1))
        return np.concatenate([nodes[:1], inner, nodes[-1:]])

    def energy(z: Array) -> tuple[float, Array]:
        features, back = chart.pull(placed(z))
        features = features - features[:1]
        pulls = torch.as_tensor(springs).to(features) @ features
        slope = solve_triangular(root, 2 * array(back(pulls))[1:-1], lower=True)
        total = float((features * pulls).sum())
        if not math.isfinite(total):
            raise InputError(
                "The map gives NaN or infinity on the way from one point to the other: mend it there, or "
                "take points on one side."
            )
        return total, slope.ravel()

    start = (root.T @ nodes[1:-1]).ravel()
    scale = energy(start)[0] or 1.0  # so that the share is one of the energy, however small

    def scaled(z: Array) -> tuple[float, Array]:
        total, slope = energy(z)
        return total / scale, slope / scale

    limits = {"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": precision, "gtol": 0.0}
    return placed(minimize(scaled, start, jac=True, method="L-BFGS-B", options=limits).x)


def chain(times: Array) -> Array:
    """The matrix of springs of stiffness 1/(t_{k+1} - t_k) between neighbours, (n, n)."""
    stiff = 1 / np.diff(times)
    ends = np.concatenate([[0.0], stiff, [0.0]])
    return np.diag(ends[1:] + ends[:-1]) - np.diag(stiff, 1) - np.diag(stiff, -1)


def tightened(chart: Chart, nodes: Array) -> tuple[Array, float]:
    """A broken line relaxed at constant speed, nodes (n, d), and its length.

    A node beside a kink finds it uphill to the other side, so that the times at which kinks are
    crossed would stay what they were. So nodes are moved to equal lengths along the line in turn.
    """
    nodes, length = even(chart, nodes, len(nodes) - 1)
    for _ in range(ROUNDS):
        moved = relaxed(chart, np.linspace(0, 1, len(nodes)), nodes, PRECISION)
        moved, new = even(chart, moved, len(nodes) - 1)
        if not new < length:
            break
        gain, nodes, length = 1 - new / length, moved, new
        if gain < ENOUGH:
            break
    return nodes, length


def even(chart: Chart, nodes: Array, segments: int) -> tuple[Array, float]:
    """Nodes (segments + 1, d) at equal lengths along a broken line, and its length."""
    fine = np.linspace(0, 1, (len(nodes) - 1) * PARTS + 1)
    points = _between(np.linspace(0, 1, len(nodes)), nodes, fine)
    lengths = chart.speeds((points[1:] + points[:-1]) / 2, np.diff(points, axis=0))
    passed = np.concatenate([[0.0], np.cumsum(lengths)])
    return _between(passed, points, np.linspace(0, passed[-1], segments + 1)), float(passed[-1])


def _between(times: Array, nodes: Array, at: Array) -> Array:
    return np.stack([np.interp(at, times, column) for column in nodes.T], 1)
