"""Machines that magnify their own boundary, against derivatives of the kernel and scikit-learn's machines."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator
from torch import Tensor

from analytic.expressions.arguments import InputError
from numeric.kernels import FunctionKernel
from numeric.learned import (
    AmariWuClassifier,
    Conformal,
    Gaussian,
    Mahalanobis,
    Polynomial,
    SmoothedLaplace,
)  # fmt: skip

M = torch.tensor([[2.0, 0.3, -0.2], [0.3, 0.5, 0.1], [-0.2, 0.1, 1.1]], dtype=torch.float64)
X = torch.tensor([[0.3, -0.8, 0.5], [1.2, 0.4, -0.1], [0.0, 0.0, 0.0]], dtype=torch.float64)


def edge(a: np.ndarray) -> np.ndarray:
    """The boundary of the paper's sinusoidal task."""
    return 0.6 * np.sin(7 * a - 1)


def sinusoid(n: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).uniform(-1, 1, (n, 2))
    return x, np.where(x[:, 1] > edge(x[:, 0]), 1, -1)


def plain(base: object, x: Tensor, y: Tensor) -> Tensor:
    """The kernels of two points from their definitions."""
    apart = (x - y) @ M @ (x - y)
    match base:
        case Gaussian(L):
            return torch.exp(-apart / (2 * L**2))
        case SmoothedLaplace(L, e):
            return torch.exp(-((apart + e**2).sqrt() - e) / L)
        case Polynomial(q, c):
            return (x @ M @ y + c) ** q
    return torch.exp(x @ M @ y)


BASES = [
    SmoothedLaplace(1.3, 0.2),
    Gaussian(0.7),
    Polynomial(3, 0.5),
    FunctionKernel(lambda x, y: (x @ y.T).exp()),
]


@pytest.mark.parametrize("base", BASES, ids=lambda base: type(base).__name__)
def test_the_metric_is_the_mixed_derivative_of_the_magnified_kernel(base: object) -> None:
    """c^2 g + k dc dc^T + c (dc b^T + b dc^T), of which b = 0 for the first two kernels only."""
    centres, tau = (X[:2] + 0.3, 1 - X), 0.8

    def factor(x: Tensor) -> Tensor:
        first, second = (torch.exp(-(x - c).square().sum(1) / (2 * tau**2)).sum() for c in centres)
        return first * second

    def magnified(x: Tensor, y: Tensor) -> Tensor:
        return factor(x) * factor(y) * plain(base, x, y)

    kernel = Conformal(Mahalanobis(base, M), centres, tau)
    mixed = [torch.autograd.functional.hessian(magnified, (x, x.clone()))[0][1] for x in X]
    torch.testing.assert_close(kernel.metric(X), torch.stack(mixed), rtol=1e-12, atol=1e-12)
    values = torch.stack([torch.stack([magnified(x, y) for y in X]) for x in X])
    torch.testing.assert_close(kernel(X), values, rtol=1e-13, atol=0)


def test_the_volume_stays_finite_where_the_factor_is_zero_in_floats() -> None:
    kernel = Conformal(Mahalanobis(Gaussian(0.7), M), (X,), 0.8)
    torch.testing.assert_close(kernel.volume(X).log, kernel.metric(X).logdet() / 2)
    there = 100 * X[:2] + 50
    assert (kernel.metric(there) == 0).all()
    assert kernel.volume(there).log.isfinite().all()
    assert kernel.volume(there).rank.tolist() == [3, 3]


@pytest.mark.parametrize(
    "base", [Gaussian(0.5), Polynomial(6, 1.0)], ids=lambda b: type(b).__name__
)
def test_each_round_magnifies_the_boundary_against_the_rest(base: object) -> None:
    """Measured for 0, 1 and 2 rounds: 1.0, 8.5, 45 (Gaussian kernel) and 0.14, 2.2, 7.9 (polynomial)."""
    x, y = sinusoid(400)
    machine = AmariWuClassifier(base, tau=0.35, rounds=2).fit(x, y)
    a = np.linspace(-1, 1, 101)
    near = np.stack([a, edge(a)], 1)
    far = np.stack([a, np.where(edge(a) > 0, -0.9, 0.9)], 1)
    ratios = [
        (k.volume(near).log.mean() - k.volume(far).log.mean()).exp() for k in machine.kernels_
    ]
    assert ratios[1] > 4 * ratios[0]
    assert ratios[2] > 2 * ratios[1]
    assert machine.score(x, y) > 0.97


def test_the_stages_are_plain_support_vector_machines() -> None:
    x, y = sinusoid(120)
    rival = SVC(kernel="rbf", gamma=1 / (2 * 0.5**2), C=3.0).fit(x, y)
    plain = AmariWuClassifier(Gaussian(0.5), rounds=0, C=3.0).fit(x, y)
    # libsvm stops at a gradient of 1e-3, and both stop at the same step but for rounding
    np.testing.assert_allclose(plain.decision_function(x), rival.decision_function(x), atol=1e-3)

    def magnified(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        c, e = (np.exp(-np.square(z[:, None] - x[rival.support_]).sum(-1) / 0.5) for z in (a, b))
        return c.sum(1)[:, None] * e.sum(1) * np.exp(-2 * np.square(a[:, None] - b).sum(-1))

    again = SVC(kernel=magnified, C=3.0).fit(x, y)
    machine = AmariWuClassifier(Gaussian(0.5), tau=0.5, rounds=1, C=3.0).fit(x, y)
    np.testing.assert_allclose(machine.decision_function(x), again.decision_function(x), atol=1e-3)


def test_arrays_tensors_and_words_go_in_and_come_out() -> None:
    x, y = sinusoid(60)
    machine = AmariWuClassifier(Gaussian(0.5)).fit(x, y)
    other = clone(machine).fit(torch.tensor(x), torch.tensor(y))
    assert clone(machine).get_params() == machine.get_params()
    assert isinstance(other.predict(torch.tensor(x)), Tensor)
    np.testing.assert_array_equal(other.predict(torch.tensor(x)).numpy(), machine.predict(x))
    words = np.array(["low", "high"])[(y > 0).astype(int)]
    spoken = clone(machine).fit(x, words).predict(torch.tensor(x))
    np.testing.assert_array_equal(spoken == "high", machine.predict(x) == 1)


def test_the_classifier_keeps_the_conventions_of_scikit_learn() -> None:
    checks = check_estimator(AmariWuClassifier(), on_fail=None, on_skip=None)
    assert [c["check_name"] for c in checks if c["status"] not in ("passed", "skipped")] == []
    assert sum(c["status"] == "passed" for c in checks) > 40


@pytest.mark.parametrize(
    ("options", "x", "y", "match"),
    [
        ({}, X, [1, 1, 1], "one class, 1, but"),
        ({}, X, ["a", "a", "a"], "one class, 'a', but"),
        ({}, X, [0.1, 0.2, 0.4], "labels, not measurements"),
        ({}, X * float("nan"), [1, 0, 1], "NaN"),
        ({}, X, [1, 0], "inconsistent"),
        ({}, X[:1], [1], "minimum of 2"),
        ({}, X[0], [1, 0, 1], "2D array"),
        ({}, X, None, "y"),
        ({"tau": 0.0}, X, [1, 0, 1], "tau"),
        ({"C": -1.0}, X, [1, 0, 1], "C = -1.0"),
        ({"rounds": 1.5}, X, [1, 0, 1], "rounds"),
        ({"kernel": "rbf"}, X, [1, 0, 1], "no kernel"),
    ],
)
def test_the_classifier_refuses(options: dict, x: Tensor, y: list, match: str) -> None:
    with pytest.raises(InputError, match=match):
        AmariWuClassifier(**options).fit(x, y)


def test_a_magnified_kernel_knows_the_dimension_of_its_centres() -> None:
    kernel = AmariWuClassifier(device="cpu").fit(X, [1, 0, 1]).kernels_[-1]
    for call in (kernel, kernel.metric, kernel.volume):
        with pytest.raises(InputError, match=rf"shape \(n, {X.shape[1]}\)"):
            call(torch.zeros(4, X.shape[1] + 1))
