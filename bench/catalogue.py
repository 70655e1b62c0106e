"""Compiled formulas: stable float faces against the textbook formula typed by hand in numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple

import numpy as np
import sympy as sp
from mpmath import mp

from analytic import catalogue
from analytic.activations import erf
from analytic.activations.activation import Activation
from analytic.expressions.symbols import V
from analytic.geometry.deep.recursion import Layer, ntk
from analytic.geometry.kernel_jet import LayerMoments
from analytic.geometry.layer_moments import derivative_layer_moments, layer_moments
from bench.clock import seconds


def run() -> Iterator[str]:
    yield from shallow()
    yield from deep()


def shallow(points: int = 1_000_000, repeats: int = 5) -> Iterator[str]:
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


def deep(points: int = 10_000, repeats: int = 5) -> Iterator[str]:
    """The rival is the same recursion in plain floats, which lose digits far out."""
    r = np.geomspace(1e-8, 1e8, points)
    layer = Layer(_plain(layer_moments), _plain(derivative_layer_moments), 1.0, 0.5)
    formula, at = catalogue["deep.erf.ntk.ricci"], {"sigma": 1.0, "zeta": 0.5, "xi": 1.0}

    def typed() -> np.ndarray:
        return ntk([layer] * 3, r**2, 1.0).ricci(2)

    def compiled() -> np.ndarray:
        return formula.numpy(d=2, r=r, depth=3, **at)

    rival, ours = (seconds(job, repeats) for job in (typed, compiled))
    yield (
        f"deep.erf.ntk.ricci, depth 3, {points} points: {1e6 * ours / points:.1f} us a point, "
        f"{ours / rival:.0f} times the same in plain floats"
    )
    where = np.linspace(0, points - 1, 33).astype(int)
    exact = [formula.evaluate(20, d=2, r=float(r[k]), depth=3, **at) for k in where]
    errors = [
        max(abs(float(mp.mpf(float(v)) / e - 1)) for v, e in zip(job()[where], exact, strict=True))
        for job in (typed, compiled)
    ]
    yield f"worst relative error for r from 1e-8 to 1e8: {errors[1]:.1e}, against {errors[0]:.1e}"


def _plain(maker: Callable[[Activation], LayerMoments]) -> Callable[[np.ndarray], LayerMoments]:
    exprs = [sp.sympify(part) for part in astuple(maker(erf))]
    body = sp.lambdify(V, exprs, modules="numpy", cse=True)
    return lambda variance: LayerMoments(*body(variance))
