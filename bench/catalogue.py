"""Compiled formulas: stable float faces against the textbook formula typed by hand in numpy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from mpmath import mp

from analytic import catalogue
from bench.clock import seconds


def run(points: int = 1_000_000, repeats: int = 5) -> Iterator[str]:
    r = np.geomspace(1e-8, 1e8, points)

    def typed() -> np.ndarray:
        V = r**2 + 0.25
        slope, bend, stretch = -1 / (1 + 2 * V), 2 / (1 + 2 * V) ** 2, 1 - 2 * r**2 / (1 + 2 * V)
        with np.errstate(all="ignore"):
            front = -2 * np.pi / 2 * np.sqrt(1 + 2 * V) * slope**2 * r**2 / stretch**2
            return front * (5 + 2 * r**2 * (slope + 2 * bend / slope))

    def compiled() -> np.ndarray:
        return catalogue["nngp.erf.ricci"].numpy(d=3, sigma=1.0, zeta=0.5, r=r)

    rival, ours = (seconds(job, repeats) for job in (typed, compiled))
    yield (
        f"nngp.erf.ricci, {points} points: {1e9 * ours / points:.0f} ns a point, "
        f"{ours / rival:.2f} times formula (7) typed with numpy"
    )
    where = np.linspace(0, points - 1, 33).astype(int)
    exact = [
        catalogue["nngp.erf.ricci"].evaluate(20, d=3, sigma=1, zeta="0.5", r=float(r[k]))
        for k in where
    ]
    errors = [
        max(
            abs(float(mp.mpf(float(job()[k])) / e - 1)) if np.isfinite(job()[k]) else np.inf
            for k, e in zip(where, exact, strict=True)
        )
        for job in (typed, compiled)
    ]
    yield f"worst relative error for r from 1e-8 to 1e8: {errors[1]:.1e}, against {errors[0]:.1e} as typed"
