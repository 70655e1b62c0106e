"""Earliest roots of sums of exponentials: against grids, and where two or three roots meet."""

from __future__ import annotations

import math

import numpy as np
import pytest

from numeric.relu_dynamics.sliding.roots import Sums, earliest
from numeric.relu_dynamics.sliding.tables import Array


def value(rates: Array, rising: Array, time: Array) -> Array:
    """Without the constant: (s,), (n, s), (t,) -> (n, t)."""
    terms = [time if k == 0 else -np.expm1(-k * time) / k for k in rates]
    return rising @ np.stack(terms)


@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_below_zero_before_the_earliest_root(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rates = np.append(10 ** rng.uniform(-3, 2, 5), 0.0)
    scale = 10 ** rng.uniform(-2, 1, 6) * np.append(np.sqrt(rates[:5]), 0.01)
    rising = rng.normal(size=(20, 6)) * scale
    constant = 10 ** rng.uniform(-2, 1.5, 20)
    fading = rng.normal(size=(4, 6)) * 10 ** rng.uniform(-3, 0, 6)
    fading[:, 0] += 0.1 - fading.sum(1)
    root = earliest(Sums.of(rates, constant, rising, fading), 40.0, 1.0)
    grid = np.concatenate([np.geomspace(1e-8, 1, 20_000), np.linspace(1, 40, 80_000)])
    waning = fading @ np.exp(-rates[:, None] * grid)
    table = np.concatenate([constant[:, None] + value(rates, rising, grid), waning])
    below = (table < 0).any(0)
    if root is None:
        assert not below.any()
        return
    time, which = root
    assert not below[grid < time * (1 - 1e-12)].any()
    here = np.array([time])
    if which < 20:
        assert abs(constant[which] + value(rates, rising[which], here)[0]) < 1e-12 * constant[which]
    else:
        assert abs(fading[which - 20] @ np.exp(-rates * time)) < 1e-13
    after = grid[(grid > time * (1 + 1e-9)) & (grid < time * (1 + 1e-2))][:1]
    if len(after):
        assert below[np.searchsorted(grid, after[0])]


def tangent(at: float, depth: float, order: int) -> tuple[Array, Array, Array]:
    """1 at 0, and `depth` at a point where derivatives up to this order vanish."""
    rates = np.array([0.0, 1.0, 2.5, 4.0][: order + 1]) / at  # so that the system below is benign
    rows = [
        [at if k == 0 else (1 - math.exp(-k * at)) / k for k in rates],
        *[[(-k) ** n * math.exp(-k * at) for k in rates] for n in range(order)],
    ]
    rising = np.linalg.solve(np.array(rows), np.array([depth - 1.0] + [0.0] * order))
    return rates, np.array([1.0]), rising[None]


@pytest.mark.parametrize("at", [0.01, 0.7, 4.0])
@pytest.mark.parametrize("guess", [1e-4, 0.3, 100.0])
def test_two_roots_that_almost_meet_are_seen_and_a_near_miss_is_none(
    at: float, guess: float
) -> None:
    none = np.empty((0, 2))
    for depth in (1e-3, 1e-6, 1e-9, 1e-12):
        rates, constant, rising = tangent(at, -depth, 1)
        time, _ = earliest(Sums.of(rates, constant, rising, none), 100.0, guess)
        curvature = float(-(rising[0] * rates) @ np.exp(-rates * at))
        assert at - time == pytest.approx(math.sqrt(2 * depth / curvature), rel=0.05)
        rates, constant, rising = tangent(at, depth, 1)
        assert earliest(Sums.of(rates, constant, rising, none), 100.0, guess) is None


def test_a_triple_root_is_seen() -> None:
    rates, constant, rising = tangent(2.0, 0.0, 2)
    time, _ = earliest(Sums.of(rates, constant, rising, np.empty((0, 3))), 100.0, 1.0)
    assert time == pytest.approx(2.0, abs=1e-4)  # the cube root of rounding


def test_signs_are_told_when_every_exponential_has_underflown() -> None:
    rates = np.array([1.0, 0.999])
    fading = np.array([[1.0, -1e-30]])
    sums = Sums.of(rates, np.empty(0), np.empty((0, 2)), fading)
    time, which = earliest(sums, 1e9, 1.0)
    assert (time, which) == (pytest.approx(30 * math.log(10) / 0.001, rel=1e-12), 0)
    flat = Sums.of(rates, np.empty(0), np.empty((0, 2)), np.array([[1.0, 0.0]]))
    assert earliest(flat, 1e9, 1.0) is None


def test_the_earliest_of_equal_functions_and_of_one_that_starts_below() -> None:
    rates, none = np.array([1.0]), np.empty((0, 1))
    same = Sums.of(rates, np.array([2.0, 0.5, 0.5]), np.array([[-1.0]] * 3), none)
    assert earliest(same, 9.0, 1.0) == (pytest.approx(math.log(2), rel=1e-15), 1)
    late = Sums.of(rates, np.array([2.0]), np.array([[-1.0]]), none)
    assert earliest(late, 9.0, 1.0) is None
    below = Sums.of(rates, np.array([1.0, -1e-20]), np.array([[-1.0], [1.0]]), none)
    assert earliest(below, 9.0, 1.0) == (0.0, 1)
