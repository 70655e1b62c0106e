"""Spline interpolants: 2000 points by the sparse system against a dense solve of the Gram matrix.

The targets come from kernel sections at five of the points, so that the interpolant is known between
them too. All errors are relative to the largest target. Random features store the targets at the
points, so that only the error between them says something. Ratios are of the dense solve alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from analytic.splines import INITIALISATIONS
from bench.clock import seconds
from numeric.splines import SplineInterpolant
from numeric.splines.law import FilledLaw, filled

Array = NDArray[np.float64]
VALUES = {"signs": {"B": 1.0}, "uniform": {"A": 1.0, "B": 1.0}, "gaussian": {"sa": 1.0, "sb": 1.0}}


def run(n: int = 2000) -> Iterator[str]:
    for name, values in VALUES.items():
        law = filled(INITIALISATIONS[name], values)
        for readout, kind in ((0.0, "random features"), (1 / 3, "tangent kernel")):
            yield f"{name}, {kind}, {n} points: {compared(law, readout, n)}"


def compared(law: FilledLaw, readout: float, n: int) -> str:
    """Seconds, residuals and errors of both ways."""
    rng = np.random.default_rng(0)
    x, between = (np.sort(rng.uniform(-0.95, 0.95, count)) for count in (n, 999))
    sources = x[:: n // 5][:5]
    weights = rng.normal(size=5)

    def truth(at: Array) -> Array:
        return law.kernel(at[:, None], sources, readout) @ weights

    y = truth(x)
    ours = SplineInterpolant(law.initialisation, law.values, readout)
    fitting = seconds(lambda: ours.fit(x, y))
    start = time.perf_counter()
    gram = law.gram(x, readout)
    building = time.perf_counter() - start
    factored, factor = cholesky_or_lu(gram)
    solving = seconds(lambda: factored(gram, y), 3)
    alpha = factored(gram, y)
    dense = law.kernel(between[:, None], x, readout) @ alpha

    def accuracy(at_data: Array, elsewhere: Array) -> str:
        size = np.abs(y).max()
        residual, error = np.abs(at_data - y).max(), np.abs(elsewhere - truth(between)).max()
        return f"residual {residual / size:.0e}, error between {error / size:.0e}"

    return (
        f"ours {1e3 * fitting:.1f} ms ({accuracy(ours.predict(x), ours.predict(between))}); "
        f"dense {factor} {1e3 * solving:.0f} ms after {1e3 * building:.0f} ms for the Gram matrix "
        f"({accuracy(gram @ alpha, dense)}); ratio {solving / fitting:.0f}"
    )


def cholesky_or_lu(gram: Array) -> tuple[Callable[[Array, Array], Array], str]:
    """Cholesky where rounding leaves the matrix positive definite."""
    try:
        linalg.cho_factor(gram)
    except linalg.LinAlgError:
        return lambda K, y: linalg.lu_solve(linalg.lu_factor(K), y), "LU (Cholesky fails)"
    return lambda K, y: linalg.cho_solve(linalg.cho_factor(K), y), "Cholesky"
