"""How fast finite interpolants approach the kernel interpolant, and by what constant."""

import math

import pytest
import torch
from mpmath import mp

from analytic.expressions.arguments import InputError
from analytic.splines import INITIALISATIONS
from numeric.estimate import Estimate
from numeric.experiments.random_features import (
    DenseInterpolant,
    FeatureSweep,
    Independent,
    RandomFeatures,
    Stratified,
)
from numeric.experiments.random_features.sweep import FOURTH

X, Y = (-0.8, -0.4, 0.0, 0.5, 0.9), (0.3, -0.2, 0.5, 0.1, -0.4)
DATA = {  # on borders of stratified cells for m a multiple of 400, so that a slope is clean
    "signs": ({"B": 1.0}, X),
    "uniform": ({"A": 1.0, "B": 1.0}, X),
    "gaussian": (
        {"sa": 1.0, "sb": 1.0},
        tuple(math.tan(math.pi * k / 20) for k in (-4, -2, 0, 3, 5)),
    ),
    "onesided": ({}, (0.1, 0.3, 0.5, 0.75, 0.95)),
}
LAWS = pytest.mark.parametrize("name", DATA)
WIDTHS = (400, 800, 1600, 3200)


def sweep(name: str, **more: object) -> FeatureSweep:
    values, x = DATA[name]
    return FeatureSweep(INITIALISATIONS[name], values, x, Y, **more)


@LAWS
def test_dense_interpolant_agrees_with_fifty_digits(name: str) -> None:
    values, x = DATA[name]
    kernel = INITIALISATIONS[name].rf.mpmath
    t = [0.05, 0.42, 0.93]
    with mp.workdps(50):
        numbers = {k: mp.mpf(v) for k, v in values.items()}
        gram = mp.matrix([[kernel(x=mp.mpf(p), y=mp.mpf(q), **numbers) for q in x] for p in x])
        alpha = mp.lu_solve(gram, mp.matrix(list(map(mp.mpf, Y))))
        rows = [[kernel(x=mp.mpf(p), y=mp.mpf(q), **numbers) for q in x] for p in t]
        exact = [float(sum(k * a for k, a in zip(row, alpha, strict=True))) for row in rows]
        norm = float(mp.sqrt(sum(a * y for a, y in zip(alpha, Y, strict=True))))
    interpolant = DenseInterpolant(INITIALISATIONS[name], values, x, Y)
    assert interpolant.predict(t).tolist() == pytest.approx(exact, abs=1e-12)
    assert interpolant.norm.item() == pytest.approx(norm, rel=1e-11)


@LAWS
def test_independent_units_approach_by_the_root_of_their_number(name: str) -> None:
    points = tuple(sweep(name).grid[:64].tolist())  # enough for so smooth an error
    errors = sweep(name, widths=WIDTHS, draws=120, seed=1, points=points).run(progress=False)
    for slope in (errors.worst_slope(), errors.rms_slope()):
        assert abs(slope.value + 0.5) < 3 * slope.stderr
        assert slope.stderr < 0.1
    assert errors.worst[400].stderr > 0
    # The constant is known: m E|f_m - f|^2 in standard errors, with a bias of about 1/m to spare.
    m, square_error = 3200, errors.square[3200]
    limit = torch.tensor(errors.constant**2 / m, dtype=torch.float64)
    assert square_error.sigmas_from(limit) < 3
    assert square_error.sigmas_from(1.5 * limit) > 3
    assert square_error.sigmas_from(limit / 1.5) > 3


@LAWS
def test_stratified_units_approach_by_the_square_of_their_number(name: str) -> None:
    errors = sweep(name, widths=WIDTHS, sampling=Stratified()).run(progress=False)
    for slope in (errors.worst_slope(), errors.rms_slope()):
        # The largest error sits between two corners, so that 512 points meet it to some percent.
        assert abs(slope.value + 2) < max(0.02, 3 * slope.stderr)
        assert slope.stderr < 0.05
    assert errors.constant is None
    assert all(error.count == 1 and error.stderr == 0 for error in errors.worst.values())


@LAWS
def test_fourth_moments_tell_how_lengths_vary(name: str) -> None:
    values, _ = DATA[name]
    draws, grid = (
        RandomFeatures(INITIALISATIONS[name], values, 200_000, sampling=sampling)
        for sampling in (Independent(), Stratified())
    )
    fourth = [(200_000**2 * one.features([0.7])[0] ** 4) for one in (draws, grid)]
    factor = FOURTH.get(name, 1.0)
    assert Estimate.of(fourth[0]).sigmas_from(factor * fourth[1].mean()) < 3
    assert Estimate.of(fourth[0]).sigmas_from(1.05 * factor * fourth[1].mean()) > 3


@pytest.mark.parametrize("scale", [1e-250, 1e-6, 1e9])
def test_units_of_length_change_nothing(scale: float) -> None:
    signs, same = INITIALISATIONS["signs"], {"m": 50, "sampling": Stratified()}
    near = RandomFeatures(signs, {"B": 1.5}, **same).fit(X, Y)
    far = RandomFeatures(signs, {"B": 1.5 * scale}, **same).fit([scale * x for x in X], Y)
    assert far.predict([0.3 * scale]).item() == pytest.approx(near.predict([0.3]).item(), rel=1e-11)


def test_norm_tends_to_that_of_the_kernel_interpolant() -> None:
    values, x = DATA["signs"]
    exact = DenseInterpolant(INITIALISATIONS["signs"], values, x, Y).norm
    off = []
    for m in (200, 2000):
        hidden = RandomFeatures(INITIALISATIONS["signs"], values, m, sampling=Stratified())
        off.append((hidden.fit(x, Y).norm - exact).item())
    assert off == pytest.approx([7.797e-3, 7.789e-5], rel=1e-3)


def largest(m: int, points: int) -> float:
    """The largest error of m stratified units with a = +-1 on equal steps between the data."""
    grid = tuple(torch.linspace(-0.8, 0.9, points, dtype=torch.float64).tolist())
    errors = sweep("signs", widths=(m,), sampling=Stratified(), points=grid).run(progress=False)
    return errors.worst[m].mean.item()


@pytest.mark.parametrize(
    ("m", "coarse", "fine"), [(200, 1.60e-4, 7.41e-4), (2000, 1.60e-6, 7.40e-6)]
)
def test_points_in_step_with_the_cells_hide_most_of_the_error(
    m: int, coarse: float, fine: float
) -> None:
    # Steps of a tenth meet borders of cells only, where f_m is nearest to f; a comparison there
    # finds 1.6e-8 for 20000 units where the largest error is 7.4e-8.
    assert largest(m, 18) == pytest.approx(coarse, rel=0.01)
    assert largest(m, 3401) == pytest.approx(fine, rel=0.01)


def test_largest_error_is_that_of_a_polygon() -> None:
    # With corners in cells of h = 4B/m: between them it is off by h^2/8 of the second derivative.
    m = 2000
    exact = DenseInterpolant(INITIALISATIONS["signs"], *DATA["signs"], Y)
    step = 1e-3
    t = torch.linspace(-0.79, 0.89, 1681, dtype=torch.float64)
    second = exact.predict(t + step) - 2 * exact.predict(t) + exact.predict(t - step)
    bend = second.abs().max().item() / step**2
    assert largest(m, 3401) == pytest.approx((4 / m) ** 2 / 8 * bend, rel=0.01)


def test_a_width_does_not_depend_on_the_others_nor_on_the_order() -> None:
    same = {"draws": 5, "points": (-0.6, 0.2, 0.7)}
    alone = sweep("signs", widths=(100,), seed=7, **same).run(progress=False)
    again = sweep("signs", widths=(300, 100), seed=7, **same).run(progress=False)
    other = sweep("signs", widths=(100,), seed=8, **same).run(progress=False)
    assert alone.worst[100].mean == again.worst[100].mean
    assert alone.square[100].spread == again.square[100].spread
    assert alone.worst[100].mean != other.worst[100].mean


def test_unsorted_and_repeated_data_are_the_same_data() -> None:
    one = DenseInterpolant(INITIALISATIONS["signs"], {"B": 1.0}, X, Y)
    two = DenseInterpolant(INITIALISATIONS["signs"], {"B": 1.0}, (*X[::-1], X[2]), (*Y[::-1], Y[2]))
    assert torch.equal(one.predict([0.1, 2.0]), two.predict([0.1, 2.0]))


def test_grid_stays_between_the_data() -> None:
    grid = sweep("signs").grid
    assert -0.8 < grid.min() < -0.79
    assert 0.89 < grid.max() < 0.9
    assert sweep("signs", points=(0.1, 0.2)).grid.tolist() == [0.1, 0.2]


BAD = {
    "no width": ({"widths": ()}, "widths must be"),
    "twice": ({"widths": (100, 100)}, "widths must be"),
    "few units": ({"widths": (4,)}, "width must be a whole number at least 5"),
    "odd": ({"widths": (101,), "sampling": Stratified()}, "take m = 102"),
    "draws": ({"draws": 1}, "draws = 1"),
    "points": ({"points": (0.1, math.nan)}, "points has entries that are NaN"),
    "sampling": ({"sampling": Independent}, "sampling: Independent"),
}


@pytest.mark.parametrize(("more", "message"), BAD.values(), ids=BAD)
def test_bad_sweeps_are_refused(more: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        sweep("signs", **more).run(progress=False)


def test_bad_data_are_refused() -> None:
    signs = INITIALISATIONS["signs"]
    with pytest.raises(InputError, match="has different targets"):
        FeatureSweep(signs, {"B": 1.0}, [0.1, 0.1], [1.0, 2.0])
    with pytest.raises(InputError, match="B must be a number above 0"):
        FeatureSweep(signs, {"B": -1.0}, X, Y)
    with pytest.raises(InputError, match=r"n at least 2, but \(1,\)"):
        FeatureSweep(signs, {"B": 1.0}, [0.1], [1.0])
    with pytest.raises(InputError, match="does not tell these 3 points apart"):  # f is affine there
        DenseInterpolant(signs, {"B": 1.0}, [2.0, 3.0, 4.0], [1.0, 2.0, 0.0]).predict([2.5])
