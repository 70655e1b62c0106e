r"""Variations of the energy of a curve, and Newton's method with them.

With $DV = RV' + NV$ on orthonormal axes, the energy $\int |Rx'|^2$ has half the first variation
$\int Rx'\cdot DV$ and, at a geodesic, half the second one $\int |DV|^2 - \langle R(V, x')x', V\rangle$.
Integrals are sums over Lobatto nodes; only first and second derivatives of the features are needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky_banded, eigh, solveh_banded

from numeric.geodesics.chart import Chart, array
from numeric.geodesics.elements import Array, Curve

__all__ = ["Variation", "energy", "length", "minimise_energy", "speeds"]

STEPS = 20  # of Newton's method
SETTLED = 1e-9  # a step below this share of the length is the last: the next would be its square
FLAT = 1e-8  # an eigenvalue of the second variation this small is 0 up to rounding
SHIFT = 1e-3  # the smallest shift that makes an indefinite second variation positive
STIFF = 1e6  # a shift that leaves only |DV|^2
SHORTEST = 1e-6  # smallest share of a step that is tried
SLOPE = 0.1  # share of the expected gain that a step must bring
NOISE = 100  # rounding error of an energy, in rounding units


@dataclass(frozen=True, eq=False)
class Variation:
    """The energy and half its variations, with respect to displacements of n nodes of d coordinates each."""

    energy: float
    first: Array  # (n d,)
    stiffness: Array  # (n d, n d), of |DV|^2
    curvature: Array  # (n d, n d), of <R(V, x')x', V>
    inner: slice  # all but the ends
    width: int  # of the band on each side of the diagonal

    @classmethod
    def at(cls, chart: Chart, curve: Curve) -> Variation:
        """For any curve; if it is not a geodesic, the second variation is the covariant one."""
        e, k, d = curve.values.shape
        y, v = curve.values.reshape(-1, d), curve.velocities.reshape(-1, d)
        derivative = chart.covariant_derivative(y, v)
        curvature = array(
            derivative.curvature_form(chart.features, chart.places(y), chart.tensor(v))
        )
        R, N = (array(part).reshape(e, k, d, d) for part in (derivative.R, derivative.N))
        every = np.arange(k)
        D = np.einsum("eqab,eqj->eqajb", R, curve.slopes)
        D[:, every, :, every] += N.swapaxes(0, 1)
        D = D.reshape(e, k * d, k * d)
        speed = (R @ curve.velocities[..., None]).reshape(e, k * d)
        weights = np.repeat(curve.weights, d, 1)
        weighted = (weights[:, :, None] * D).swapaxes(1, 2)
        curvature = curve.weights[:, :, None, None] * curvature.reshape(e, k, d, d)
        n = ((k - 1) * e + 1) * d
        first, stiffness, curvatures = np.zeros(n), np.zeros((n, n)), np.zeros((n, n))
        for piece in range(e):
            here = slice(piece * (k - 1) * d, (piece * (k - 1) + k) * d)
            first[here] += weighted[piece] @ speed[piece]
            stiffness[here, here] += weighted[piece] @ D[piece]
            blocks = np.zeros((k, d, k, d))
            blocks[every, :, every] = curvature[piece]
            curvatures[here, here] += blocks.reshape(k * d, k * d)
        return cls(
            float((weights * speed**2).sum()), first, stiffness, curvatures, slice(d, n - d), k * d
        )

    def _inner(self) -> tuple[Array, Array]:
        """The second variation with the ends fixed, and its part |DV|^2."""
        stiffness = self.stiffness[self.inner, self.inner]
        return stiffness - self.curvature[self.inner, self.inner], stiffness

    def _band(self, matrix: Array) -> Array:
        """The upper half of the band, in scipy's format."""
        rows = range(min(self.width, len(matrix)) - 1, -1, -1)
        return np.stack([np.pad(matrix.diagonal(row), (row, 0)) for row in rows])

    def stability(self) -> float:
        """The smallest eigenvalue of the second variation relative to |DV|^2."""
        return float(eigh(*self._inner(), eigvals_only=True, subset_by_index=[0, 0])[0])

    def follow(self, d: int) -> Array:
        """The second variation in the first node, minimised over inner nodes (Schur complement): (d, d)."""
        second = self.stiffness - self.curvature
        coupled = second[self.inner, :d]
        answer = np.linalg.solve(second[self.inner, self.inner], coupled)
        return second[:d, :d] - coupled.T @ answer

    def step(self) -> tuple[Array, float]:
        """Newton's step downhill with the ends fixed, and its length in |DV|."""
        second, stiffness = self._inner()
        slope, shift = self.first[self.inner], 0.0
        while True:
            try:
                cholesky_banded(self._band(second + (shift - FLAT) * stiffness))
                break
            except LinAlgError:
                if shift > STIFF:
                    raise
                shift = max(SHIFT, 4 * shift)
        step = -solveh_banded(self._band(second + shift * stiffness), slope)
        return step, math.sqrt(max(0.0, step @ stiffness @ step))


def speeds(chart: Chart, curve: Curve) -> Array:
    """At the nodes of each piece, (e, m + 1)."""
    e, k, d = curve.values.shape
    return chart.speeds(curve.values.reshape(-1, d), curve.velocities.reshape(-1, d)).reshape(e, k)


def energy(chart: Chart, curve: Curve) -> float:
    """The integral of the squared speed."""
    return float((curve.weights * speeds(chart, curve) ** 2).sum())


def length(chart: Chart, curve: Curve) -> float:
    """The integral of the speed."""
    return float((curve.weights * speeds(chart, curve)).sum())


def minimise_energy(chart: Chart, curve: Curve) -> Curve:
    """Newton's method, until the energy is stationary or no step lowers it."""
    for _ in range(STEPS):
        here = Variation.at(chart, curve)
        inner, size = here.step()
        step = np.pad(inner.reshape(-1, curve.values.shape[2]), ((1, 1), (0, 0)))
        gain, share = float(here.first[here.inner] @ inner), 1.0
        while True:
            moved = Curve.through(curve.breaks, curve.nodes + share * step)
            bound = here.energy * (1 + NOISE * chart.unit) + SLOPE * share * gain
            if energy(chart, moved) <= bound:
                break
            share /= 2
            if share < SHORTEST:
                return curve
        curve = moved
        if size < SETTLED * math.sqrt(here.energy):
            break
    return curve
