"""Regression and classification with any kernel: posteriors behind scikit-learn's interface."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator
from torch import Tensor

from analytic.activations import relu
from analytic.expressions.arguments import InputError
from numeric.infinite import Convolution, Dense, FullyConnected, GlobalPool, Network, posterior
from numeric.kernels import FunctionKernel, Kernel, SingularGram
from numeric.learned import KernelClassifier, KernelRegressor

BELL = FunctionKernel(lambda x, y: torch.exp(-(torch.cdist(x, y) ** 2) / 2))
IMAGES = Network([Convolution(3), relu, GlobalPool(), Dense()], progress=False)


def cloud(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    "estimator", [KernelRegressor(), KernelClassifier()], ids=lambda e: type(e).__name__
)
def test_they_keep_the_conventions_of_scikit_learn(estimator: object) -> None:
    checks = check_estimator(estimator, on_fail=None, on_skip=None)
    assert [c["check_name"] for c in checks if c["status"] not in ("passed", "skipped")] == []
    assert sum(c["status"] == "passed" for c in checks) > 40


def test_means_and_standard_deviations_are_those_of_scikit_learn() -> None:
    x, y, fresh = cloud(30, 3), cloud(30, 2, seed=1), cloud(12, 3, seed=2)
    rival = GaussianProcessRegressor(RBF(1.0, "fixed"), alpha=0.1, optimizer=None).fit(x, y)
    mean, std = rival.predict(fresh.numpy(), return_std=True)
    found, spread = KernelRegressor(BELL, noise=0.1).fit(x, y).predict(fresh, return_std=True)
    np.testing.assert_allclose(
        found, mean, rtol=1e-10, atol=1e-12
    )  # the condition number is below 400
    np.testing.assert_allclose(spread, std[:, 0], rtol=1e-10)


@pytest.mark.parametrize("kernel", [IMAGES.nngp, IMAGES.ntk], ids=["nngp", "ntk"])
def test_images_are_classified_by_any_network(kernel: Kernel) -> None:
    """Bright images and dark ones; outputs are the posterior's of targets 1/2 and -1/2."""
    x = 0.3 * cloud(12, 1, 4, 4)
    labels = np.array(["dark", "bright"])[np.arange(12) % 2]
    x[1::2] += 1
    machine = KernelClassifier(kernel, noise=0.1).fit(x[:8], labels[:8])
    assert machine.predict(x[8:]).tolist() == labels[8:].tolist()
    signs = torch.tensor([1.0, -1.0] * 4, dtype=torch.float64)  # classes are sorted
    expected = posterior(kernel, x[:8], signs, x[8:], noise=0.1).mean
    torch.testing.assert_close(machine.decision_function(x[8:]), expected, rtol=1e-9, atol=1e-11)
    assert machine.process_.spectrum.condition > 1


def test_arrays_and_tensors_come_back_as_they_went_and_parameters_are_searched() -> None:
    x, y = cloud(20, 2), cloud(20, seed=1)
    one = KernelRegressor(BELL).fit(x, y)
    other = clone(one).fit(x.numpy(), y.numpy())
    assert isinstance(one.predict(x), Tensor)
    assert isinstance(other.predict(x.numpy()), np.ndarray)
    labels = (y > 0).long()
    predicted = KernelClassifier(BELL).fit(x, labels).predict(x)
    assert isinstance(predicted, Tensor)
    assert predicted.dtype == torch.int64
    grid = {"noise": [0.1, 10.0], "kernel": [BELL, FullyConnected(relu).ntk]}
    search = GridSearchCV(KernelRegressor(), grid, cv=2).fit(x.numpy(), x[:, 0].numpy())
    assert search.best_params_ == {
        "noise": 0.1,
        "kernel": grid["kernel"][1],
    }  # a line is learned best


def test_repeated_points_without_noise() -> None:
    """With one target they are one point and a warning; with two no process has these values."""
    x = cloud(4, 2)[[0, 1, 2, 3, 0]]
    with pytest.warns(SingularGram):
        found = KernelRegressor(BELL, noise=0.0).fit(x, x[:, 0])
    torch.testing.assert_close(found.predict(x), x[:, 0], rtol=1e-10, atol=1e-10)
    with pytest.raises(InputError, match="contradict"):
        KernelRegressor(BELL, noise=0.0).fit(x, torch.arange(5.0))


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (lambda x, y: KernelRegressor(noise=-1.0).fit(x, y), "noise"),
        (lambda x, y: KernelRegressor("ntk").fit(x, y), "kernel must be of class Kernel"),
        (lambda x, y: KernelRegressor(FullyConnected(relu)).fit(x, y), "kernel must be of class Kernel"),
        (lambda x, y: KernelRegressor(device="nowhere").fit(x, y), "device"),
        (lambda x, y: KernelRegressor().fit(x, None), "y is None"),
        (lambda x, y: KernelRegressor().fit(x, ["a"] * 5), "targets are numbers"),
        (lambda x, y: KernelRegressor().fit(x / 0, y), "NaN"),
        (lambda x, y: KernelRegressor().fit(x, y[:3]), "inconsistent"),
        (lambda x, y: KernelRegressor().fit(x, y).predict(x[:, :2]), "features"),
        (lambda x, y: KernelRegressor(IMAGES.ntk).fit(x, y), "Layer 0, Convolution"),
        (lambda x, y: KernelClassifier().fit(x, y), "not measurements"),
        (lambda x, y: KernelClassifier().fit(x, [1] * 5), "one class"),
        (lambda x, y: KernelClassifier(noise=float("inf")).fit(x, [0, 1, 0, 1, 0]), "noise"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(bad: Callable, match: str) -> None:
    with pytest.raises(InputError, match=match):
        bad(cloud(5, 3), cloud(5, seed=1))
