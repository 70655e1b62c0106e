r"""Residuals and neurons while no neuron changes its mode, in closed form.

With $w_i' = -(c_i/\alpha) A_i\rho$ residuals follow $\rho' = -H\rho$, $H = \sum_i (c_i/\alpha)^2 A_i^T A_i$.
Its modes come from singular vectors of the stack of all $(c_i/\alpha) A_i$. So the rank is plain, small
rates keep twice the digits that eigenvalues of $H$ would, and left vectors tell how slowly neurons move.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from numeric.relu_dynamics.sliding.tables import Array, Tables

__all__ = ["LinearModes", "integrals"]

FLOOR = 8 * np.finfo(float).eps


@dataclass(frozen=True, eq=False)
class LinearModes:
    """The solution with given initial residuals, in closed form."""

    rates: Array  # (s,), at least 0
    vectors: Array  # (s, s), in columns, each as long as its share of the residuals
    fields: Array  # (4s, 2, s): A @ vectors for every mode of a neuron
    occupied: Array  # (4s,): 1 where there are neurons, else 0

    @classmethod
    def of(cls, tables: Tables, weights: Array, residuals: Array) -> LinearModes:
        """From the sum of (c/alpha)^2 over the neurons in each mode, (4s,)."""
        motion, root = tables.motion, np.sqrt(weights)[:, None, None]
        stack = (root * motion).reshape(-1, len(residuals))
        left, values, right = np.linalg.svd(stack, full_matrices=False)
        values = np.where(values > len(stack) * np.finfo(float).eps * values[0], values, 0.0)
        direct = motion @ right.T
        sharp = left.reshape(motion.shape) * (values / np.where(root > 0, root, 1.0))
        # Rounding is of the size of A in one, and of the singular value over the root in the other.
        fields = np.where(values < root * tables.size[:, None, None], sharp, direct)
        share = right @ residuals
        return cls(values**2, right.T * share, fields * share, (weights > 0).astype(float))

    def residuals(self, time: float) -> Array:
        return self.vectors @ np.exp(-self.rates * time)

    def time_to_rounding(self, scale: float) -> float:
        """The time after which the forces are below the rounding error of residuals of this size."""
        root = np.sqrt(self.rates)
        strength = root * np.sqrt((self.vectors**2).sum(0))
        floor = FLOOR * scale * root.max()
        above = strength > floor
        return float((np.log(strength[above] / floor) / self.rates[above]).max(initial=0.0))

    def force(self, time: float) -> Array:
        """A @ residuals: (4s, 2)."""
        return self.fields @ np.exp(-self.rates * time)

    def drift(self, time: float) -> Array:
        """The integral of the force, where there are neurons: (4s, 2)."""
        return self.occupied[:, None] * (self.fields @ integrals(self.rates, time))


def integrals(rates: Array, time: Array | float) -> Array:
    r"""$\int_0^t e^{-\lambda u}\,du$, which is t at rate 0."""
    safe = np.where(rates > 0, rates, 1.0)
    return np.where(rates > 0, -np.expm1(-rates * time) / safe, time)
