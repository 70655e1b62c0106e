"""Random ReLU units on a line: their kernel, and the interpolants that they reach."""

import math

import numpy as np
import pytest
import torch
from mpmath import mp

from analytic.expressions.arguments import InputError
from analytic.splines import INITIALISATIONS
from numeric.estimate import Estimate, power_law
from numeric.experiments.random_features import (
    Independent,
    RandomFeatureNetwork,
    RandomFeatures,
    Stratified,
)

X, Y = [-0.8, -0.4, 0.0, 0.5, 0.9], [0.3, -0.2, 0.5, 0.1, -0.4]
VALUES = {
    "signs": {"B": 1.5},
    "uniform": {"A": 2.0, "B": 1.5},
    "gaussian": {"sa": 1.3, "sb": 0.7},
    "onesided": {},
}
LAWS = pytest.mark.parametrize("name", VALUES)
POINTS = torch.tensor([-3.0, -0.7, 0.0, 0.21, 0.6, 0.61, 2.5], dtype=torch.float64)


def layer(name: str = "signs", m: int = 400, **more: object) -> RandomFeatures:
    return RandomFeatures(INITIALISATIONS[name], VALUES[name], m, **more)


def closed(name: str, x: torch.Tensor) -> torch.Tensor:
    x, y = torch.broadcast_tensors(x[:, None], x[None])
    return INITIALISATIONS[name].rf.torch(x=x, y=y, **VALUES[name])


@LAWS
def test_kernel_of_independent_units_has_the_closed_form_as_its_mean(name: str) -> None:
    mean_kernel = Estimate.of(
        torch.stack([layer(name, 500, seed=k).kernel(POINTS) for k in range(200)])
    )
    exact = closed(name, POINTS)
    assert mean_kernel.sigmas_from(exact).max() < 4
    assert mean_kernel.sigmas_from(1.05 * exact).max() > 4  # five percent would be seen
    assert mean_kernel.stderr.max() > 0


@LAWS
def test_kernel_of_stratified_units_is_off_by_the_square_of_a_cell(name: str) -> None:
    widths = [100, 300, 900, 2700, 8100]  # odd ratios keep the place of a kink in its cell alike
    exact = closed(name, POINTS)
    off = [
        (layer(name, 4 * m, sampling=Stratified()).kernel(POINTS) - exact).abs().max().item()
        for m in widths
    ]
    slope = power_law(widths, off)
    assert abs(slope.value + 2) < max(0.02, 3 * slope.stderr)
    assert off[-1] < 2e-7 * exact.max()


@LAWS
@pytest.mark.parametrize("sampling", [Independent(), Stratified()], ids=["independent", "grid"])
def test_fit_passes_through_the_data(name: str, sampling: Independent | Stratified) -> None:
    x = X if name != "onesided" else [0.1, 0.3, 0.5, 0.8, 1.7]
    network = layer(name, sampling=sampling).fit(x, Y)
    target = torch.tensor(Y, dtype=torch.float64)
    assert (network.predict(x) - target).abs().max() < 1e-12


def test_units_follow_their_law() -> None:
    a, b = layer(m=10_000).units
    assert set(a.tolist()) == {-1.0, 1.0}
    assert abs(a.mean()) < 4 / math.sqrt(10_000)
    assert 1.49 < b.max() <= 1.5
    assert -1.5 <= b.min() < -1.49
    a, b = layer("uniform", 8, sampling=Stratified()).units
    assert torch.allclose(a * math.sqrt(2), torch.tensor([2, 2, -2, -2, -1, 1, -1, 1.0]).to(a))
    assert torch.allclose(
        b * math.sqrt(2), 0.75 * torch.tensor([-1, 1, -1, 1, 2, 2, -2, -2.0]).to(b)
    )
    a, b = layer("onesided", 2, sampling=Stratified()).units
    assert (a.tolist(), b.tolist()) == ([1, 1], [0.25, 0.75])


def lagrange(features: torch.Tensor, y: list[float]) -> list:
    """min |c|^2 with features c = y, as one saddle system in fifty digits."""
    n, m = features.shape
    with mp.workdps(50):
        system, right = mp.zeros(m + n), mp.zeros(m + n, 1)
        for i in range(m):
            system[i, i] = 1
        for j in range(n):
            right[m + j] = y[j]
            for i in range(m):
                system[i, m + j] = system[m + j, i] = features[j, i].item()
        return [float(c) for c in mp.lu_solve(system, right)[:m]]


@LAWS
def test_fit_has_the_least_norm(name: str) -> None:
    x = X if name != "onesided" else [0.1, 0.3, 0.5, 0.8, 1.7]
    hidden = layer(name, 16, sampling=Stratified())
    network = hidden.fit(x, Y)
    exact = torch.tensor(lagrange(hidden.features(x), Y), dtype=torch.float64)
    assert (network.coefficients - exact).norm() < 1e-11 * exact.norm()
    assert abs(network.norm - exact.norm()) < 1e-11 * exact.norm()


def test_fit_with_a_ridge_solves_its_normal_equations() -> None:
    hidden, ridge = layer(), 0.03
    c = hidden.fit(X, Y, ridge).coefficients
    features = hidden.features(X)
    gradient = features.T @ (features @ c - torch.tensor(np.array(Y))) + ridge * c
    assert gradient.abs().max() < 1e-14


def test_a_small_ridge_tends_to_the_interpolant() -> None:
    limit = layer().fit(X, Y).coefficients
    off = [(layer().fit(X, Y, r).coefficients - limit).norm().item() for r in (1e-7, 1e-8, 1e-9)]
    assert power_law([1e-7, 1e-8, 1e-9], off).value == pytest.approx(1, abs=1e-3)


def test_training_the_readout_reaches_the_fit() -> None:
    hidden = layer(m=64, sampling=Stratified())
    trained = hidden.train(X, Y, 1_000, momentum=0.93, progress=False)
    fitted = hidden.fit(X, Y).coefficients
    # Momentum above its best value makes every mode shrink by sqrt(momentum) a step.
    assert math.sqrt(0.93) ** 1_000 < 1e-15
    assert (trained.coefficients - fitted).norm() < 1e-12 * fitted.norm()
    assert trained.losses.shape == (1_000,)
    assert trained.losses[0] == pytest.approx(sum(y * y for y in Y) / 2, rel=1e-14)
    assert trained.losses[-1] < 1e-24


def test_plain_descent_shrinks_each_mode_as_its_curvature_says() -> None:
    hidden, steps = layer(m=64, sampling=Stratified()), 300
    u, s, vt = torch.linalg.svd(hidden.features(X), full_matrices=False)
    share = 1 - (1 - (s / s[0]) ** 2) ** steps
    exact = (share / s * (torch.tensor(np.array(Y)) @ u)) @ vt
    trained = hidden.train(X, Y, steps, progress=False).coefficients
    assert (trained - exact).norm() < 1e-12 * exact.norm()
    assert share.min() < 0.5  # so that this is not the fit again


def test_training_never_leaves_the_span_of_the_data() -> None:
    hidden = layer(m=64)
    c = hidden.train(X, Y, 3, progress=False).coefficients
    features = hidden.features(X)
    inside = features.T @ torch.linalg.lstsq(features.T, c[:, None]).solution
    assert (inside[:, 0] - c).norm() < 1e-12 * c.norm()


def test_draws_depend_on_the_seed_alone() -> None:
    one, same, other = layer(seed=3), layer(seed=3), layer(seed=4)
    assert torch.equal(one.units[1], same.units[1])
    assert not torch.equal(one.units[1], other.units[1])
    single = layer(seed=3, dtype=torch.float32)
    assert torch.equal(single.units[1], one.units[1].float())
    grids = [layer(seed=k, sampling=Stratified()).units[1] for k in (3, 4)]
    assert torch.equal(*grids)


def test_single_precision_stays_single() -> None:
    network = layer(dtype=torch.float32).fit(X, Y)
    assert network.predict(X).dtype == torch.float32
    assert (network.predict(X) - torch.tensor(Y)).abs().max() < 1e-4


def test_prediction_in_parts_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    network, x = layer().fit(X, Y), torch.linspace(-2, 2, 101)
    whole = network.predict(x)
    monkeypatch.setattr("numeric.experiments.random_features.network.BLOCK", 3_000)
    assert (network.predict(x) - whole).abs().max() < 1e-14
    assert RandomFeatureNetwork(network.hidden, network.coefficients).predict([]).shape == (0,)


def test_a_point_given_twice_counts_once() -> None:
    once, twice = layer().fit(X, Y), layer().fit([*X, X[1]], [*Y, Y[1]])
    assert (once.coefficients - twice.coefficients).norm() < 1e-12 * once.norm


def test_targets_that_rank_allows_are_met() -> None:
    network = layer("onesided").fit([-1.0, 0.0, 0.5], [0.0, 0.0, 1.0])  # no unit looks left of 0
    assert network.predict([-1.0, 0.0, 0.5]).tolist() == pytest.approx([0, 0, 1], abs=1e-14)


BAD_FITS = {
    "one sample": ([0.1], [1.0], {}, "at least 2"),
    "lengths": (X, Y[:4], {}, "5 points and 4 targets"),
    "contradiction": ([0.1, 0.5, 0.1], [1.0, 2.0, 3.0], {}, "x = 0.1 has different targets"),
    "nan target": ([0.1, 0.5], [1.0, math.nan], {}, "y has entries that are NaN or infinite"),
    "infinite target": ([0.1, 0.5], [1.0, math.inf], {}, "y has entries that are NaN or infinite"),
    "infinite point": ([0.1, -math.inf], [1.0, 2.0], {}, "x has entries that are NaN or infinite"),
    "shape": ([[0.1], [0.5]], [1.0, 2.0], {}, r"but \(2, 1\) was given"),
    "words": (["a", "b"], [1.0, 2.0], {}, "must be an array of numbers"),
    "ridge": (X, Y, {"ridge": -1.0}, "ridge = -1.0"),
    "ridge nan": (X, Y, {"ridge": math.nan}, "ridge = nan"),
}


@pytest.mark.parametrize(("x", "y", "more", "message"), BAD_FITS.values(), ids=BAD_FITS)
def test_bad_data_are_refused(x: list, y: list, more: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        layer().fit(x, y, **more)


def test_too_few_units_cannot_interpolate() -> None:
    with pytest.raises(InputError, match="4 units, of rank 4 here, cannot interpolate 5 points"):
        layer("gaussian", 4).fit(X, Y)
    with pytest.raises(InputError, match="of rank 3 here"):
        layer("onesided").fit([-1, -0.5, 0.2, 0.4, 0.6], Y)
    with pytest.raises(
        InputError, match="cannot interpolate 2 points"
    ):  # closer than float64 can tell
        layer().fit([0.1, math.nextafter(0.1, 1)], [1.0, 2.0])
    assert layer("gaussian", 4).fit(X, Y, ridge=0.1).norm > 0


BAD_LAYERS = {
    "B": ("signs", {"B": 0.0}, 4, {}, "B must be a number above 0"),
    "A": ("uniform", {"A": -1.0, "B": 1.0}, 4, {}, "A must be a number above 0"),
    "nan": ("signs", {"B": math.nan}, 4, {}, "B = nan"),
    "missing": ("uniform", {"A": 1.0}, 4, {}, r"needs values for \['A', 'B'\]"),
    "surplus": ("onesided", {"B": 1.0}, 4, {}, r"needs values for \[\]"),
    "odd": ("signs", {"B": 1.0}, 5, {"sampling": Stratified()}, "take m = 6"),
    "quarters": ("uniform", {"A": 1, "B": 1}, 6, {"sampling": Stratified()}, "take m = 8"),
    "m": ("signs", {"B": 1.0}, 0, {}, "m = 0"),
    "m half": ("signs", {"B": 1.0}, 2.5, {}, "m = 2.5"),
    "seed": ("signs", {"B": 1.0}, 4, {"seed": -1}, "seed = -1"),
    "sampling": ("signs", {"B": 1.0}, 4, {"sampling": "grid"}, "not 'grid'"),
}


@pytest.mark.parametrize(
    ("name", "values", "m", "more", "message"), BAD_LAYERS.values(), ids=BAD_LAYERS
)
def test_bad_layers_are_refused(name: str, values: dict, m: int, more: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        RandomFeatures(INITIALISATIONS[name], values, m, **more)


def test_other_bad_requests_are_refused() -> None:
    with pytest.raises(InputError, match="'signs' is none of"):
        RandomFeatures("signs", {"B": 1.0}, 4)
    with pytest.raises(InputError, match=r"momentum = 1\.0"):
        layer().train(X, Y, 5, momentum=1.0)
    with pytest.raises(InputError, match="where units are active"):
        layer("onesided").train([-1.0, -2.0], [1.0, 2.0], 5)
    with pytest.raises(InputError, match="steps = 0"):
        layer().train(X, Y, 0)
