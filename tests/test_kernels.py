"""One law for every kernel of the suite; and predictions, metrics and evidence of any kernel."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from analytic.activations import erf, gelu, relu, tanh
from analytic.splines import INITIALISATIONS
from numeric import geometry, infinite
from numeric.inputs import InputError
from numeric.kernels import FunctionKernel, Kernel, Tiled, assert_kernel
from numeric.learned import (
    AmariWuClassifier,
    Gaussian,
    Laplace,
    Mahalanobis,
    Polynomial,
    SelfSupervisedKernel,
    SmoothedLaplace,
)
from numeric.splines import SplineKernel

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(7, 3, generator=GENERATOR, dtype=torch.float64)
Y = torch.cat(
    [torch.randn(4, 3, generator=GENERATOR, dtype=torch.float64), X[:1], 2 * X[1:2], 0 * X[:1]]
)
M = X.T @ X / 7
NET = infinite.FullyConnected([relu, erf], 2, 1.4, 0.3)


def self_supervised() -> Kernel:
    return SelfSupervisedKernel(Gaussian(2.0), components=2, device="cpu").fit(
        X, X + 0.1 * X.roll(1, 0)
    )


def conformal() -> Kernel:
    labels = (X[:, 0] > 0).numpy()
    return AmariWuClassifier(Gaussian(1.0), device="cpu").fit(X, labels).kernels_[-1]


def quadratic(x: Tensor, y: Tensor) -> Tensor:
    return (x @ y.T + 1) ** 2


KERNELS: dict[str, Callable[[], Kernel]] = {
    "NNGP": lambda: NET.nngp,
    "NTK": lambda: NET.ntk,
    "NTK of GELU": lambda: infinite.FullyConnected(gelu, 1, 1.0, 0.0).ntk,
    "NTK by quadrature": lambda: infinite.FullyConnected(tanh, 2, 1.2, 0.1).ntk,
    "Laplace": lambda: Mahalanobis(Laplace(2.0), M),
    "smoothed Laplace": lambda: Mahalanobis(SmoothedLaplace(2.0, 0.1)),
    "Gaussian": lambda: Mahalanobis(Gaussian(1.5), M),
    "polynomial": lambda: Mahalanobis(Polynomial(3, 0.5)),
    "one's own": lambda: Mahalanobis(FunctionKernel(quadratic), M),
    "conformal": conformal,
    "self-supervised": self_supervised,
    "function": lambda: FunctionKernel(quadratic),
    "sum": lambda: NET.nngp + Mahalanobis(Gaussian(1.5)),
    "product": lambda: NET.ntk * FunctionKernel(quadratic),
    "scaled": lambda: 0.3 * NET.nngp,
    "tiled": lambda: Tiled(NET.ntk, 2, 3),
}  # fmt: skip


FITTED = ["Laplace", "Gaussian", "polynomial", "one's own", "conformal", "self-supervised"]


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_obeys_the_law(name: str) -> None:
    # Quadratures are good to 1e-13; features of a fitted kernel are sums with weights of either sign.
    ulps = {"NTK by quadrature": 2**10, "self-supervised": 2**14}.get(name, 64)
    assert_kernel(KERNELS[name](), X, Y, ulps)


@pytest.mark.parametrize("readout", [0.0, 0.7])
@pytest.mark.parametrize("init", INITIALISATIONS)
def test_spline_kernels_obey_the_law(init: str, readout: float) -> None:
    names = [symbol.name for symbol in INITIALISATIONS[init].parameters]
    kernel = SplineKernel(INITIALISATIONS[init], dict.fromkeys(names, 1.3), readout)
    assert_kernel(kernel, X[:, :1].abs(), Y[:, :1].abs() + 0.01)


@pytest.mark.parametrize(
    "name", ["NNGP", "NTK", "function", "sum", "product", "scaled", "tiled", *FITTED]
)
def test_single_precision_is_kept(name: str) -> None:
    assert_kernel(KERNELS[name](), X.float(), Y.float())


@pytest.mark.parametrize("name", KERNELS)
def test_arrays_and_lists_are_points(name: str) -> None:
    kernel = KERNELS[name]()
    expected = kernel(X, Y), kernel.diagonal(X)
    for x, y in ((X.numpy(), Y.numpy()), (X.tolist(), Y.tolist()), (X, Y.tolist())):
        for one, other in zip((kernel(x, y), kernel.diagonal(x)), expected, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert kernel(X.float(), Y.tolist()).dtype == torch.float32


WRONG: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], str]] = {
    "not symmetric": (lambda x, y: (x @ y.T) + x[:, :1], r"k\(x, y\) = k\(y, x\)"),
    "negative": (lambda x, y: (x @ y.T) - 5 * torch.exp(-torch.cdist(x, y)), "below 0|semidefinite"),
    "distance": (lambda x, y: 9 - torch.cdist(x, y) ** 2, "semidefinite"),
    "depends on the order": (lambda x, y: x @ y.T * (1 + 1e-9 * torch.arange(len(y)).to(x)), "k"),
    "another dtype": (lambda x, y: (x @ y.T).float(), "float32"),
    "NaN": (lambda x, y: (x @ y.T).log(), "NaN"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_kernel_is_refused(name: str) -> None:
    function, message = WRONG[name]
    with pytest.raises(AssertionError, match=message):
        assert_kernel(FunctionKernel(function), X, Y)


def test_bad_parts_of_kernels_are_refused() -> None:
    with pytest.raises(InputError, match="at least 0"):
        NET.nngp * -1.0
    with pytest.raises(InputError, match="shape"):
        FunctionKernel(lambda x, y: x)(X)
    with pytest.raises(InputError, match="function"):
        FunctionKernel("rbf")
    with pytest.raises(InputError, match="part of a kernel"):
        NET.nngp + 1.0
    with pytest.raises(InputError, match=r"\(n, 1\)"):
        SplineKernel(INITIALISATIONS["onesided"])(X)


def test_metrics_of_kernels_are_those_of_their_features() -> None:
    def features(x: Tensor) -> Tensor:
        return torch.cat([x, x**2, torch.sin(x)], 1)

    exact = geometry.metric(features, X, progress=False)
    kernel = FunctionKernel(lambda x, y: features(x) @ features(y).T)
    torch.testing.assert_close(geometry.metric(kernel, X), exact, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(geometry.metric(2.0 * kernel + kernel, X), 3 * exact)
    gaussian = Mahalanobis(Gaussian(1.5), M)
    torch.testing.assert_close(geometry.metric(gaussian, X), gaussian.metric(X))
    product = geometry.metric(Mahalanobis(Gaussian(1.5)) * Mahalanobis(Gaussian(2.0)), X)
    torch.testing.assert_close(
        product, (1 / 1.5**2 + 1 / 4) * torch.eye(3).double().expand(7, 3, 3)
    )


def test_predictions_and_evidence_work_on_any_kernel() -> None:
    targets = X.sum(1)
    one, two = (
        infinite.posterior(NET, X, targets, Y, 0.1),
        infinite.posterior(NET.nngp, X, targets, Y, 0.1),
    )
    assert torch.equal(one.mean, two.mean)
    assert torch.equal(one.std, two.std)
    start = infinite.ZeroInitial()
    flows = [infinite.gradient_flow(k, X, targets, Y, 2.0, 0.1, start) for k in (NET, NET.ntk)]
    assert torch.equal(flows[0].mean, flows[1].mean)
    with pytest.raises(InputError, match="ZeroInitial"):
        infinite.gradient_flow(NET.ntk, X, targets, Y)
    gram = (kernel := FunctionKernel(quadratic))(X) + 0.1 * torch.eye(7, dtype=X.dtype)
    mean = kernel(Y, X) @ torch.linalg.solve(gram, targets)
    torch.testing.assert_close(infinite.posterior(kernel, X, targets, Y, 0.1).mean, mean)
    evidence = infinite.log_marginal_likelihood(kernel, X, targets, 0.1)
    density = torch.distributions.MultivariateNormal(torch.zeros(7).double(), gram)
    assert math.isclose(evidence.value, density.log_prob(targets).item(), rel_tol=1e-12)
    with pytest.raises(InputError, match="scales"):
        _ = evidence.gradient
