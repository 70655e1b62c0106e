"""Kernels with a Mahalanobis matrix, and their metrics against differences of the kernels themselves."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from mpmath import mp
from torch import Tensor

from analytic.expressions.arguments import InputError
from numeric.kernels import FunctionKernel
from numeric.kernels.two_point import squared_distances
from numeric.learned import Gaussian, Laplace, Mahalanobis, Polynomial, SmoothedLaplace

M = torch.tensor([[2.0, 0.3, -0.2], [0.3, 0.5, 0.1], [-0.2, 0.1, 1.1]], dtype=torch.float64)
X = torch.tensor([[0.3, -0.8, 0.5], [1.2, 0.4, -0.1], [0.0, 0.0, 0.0]], dtype=torch.float64)


def waves(x: Tensor, y: Tensor) -> Tensor:
    """Neither a distance nor an inner product, and not invariant under rotations."""
    return x.cos() @ y.cos().T + (x[:, :1] + 2) @ (y[:, :1] + 2).T ** 2


def symmetric_waves(x: Tensor, y: Tensor) -> Tensor:
    return waves(x, y) + waves(y, x).T


def written_out(base: object) -> Callable[[mp.matrix, mp.matrix], mp.mpf]:
    """The same kernels of two mpmath vectors, from their definitions."""
    matrix = mp.matrix(M.tolist())
    root = mp.sqrtm(matrix)

    def dot(a: mp.matrix, b: mp.matrix) -> mp.mpf:
        return (a.T * b)[0]

    def of(x: mp.matrix, y: mp.matrix) -> mp.mpf:
        apart = dot(x - y, matrix * (x - y))
        match base:
            case Gaussian(L):
                return mp.exp(-apart / (2 * mp.mpf(L) ** 2))
            case SmoothedLaplace(L, e):
                return mp.exp(-(mp.sqrt(apart + mp.mpf(e) ** 2) - mp.mpf(e)) / mp.mpf(L))
            case Polynomial(q, c):
                return (dot(x, matrix * y) + mp.mpf(c)) ** q
        x, y = root * x, root * y
        both = sum(2 * mp.cos(a) * mp.cos(b) for a, b in zip(x, y, strict=True))
        a, b = x[0] + 2, y[0] + 2
        return both + a * b**2 + b * a**2

    return of


def difference_metric(k: Callable, x: Tensor) -> np.ndarray:
    """(F.5) by central differences of step 1e-12 in 60 digits, so to about 24."""
    with mp.workdps(60):
        d, h = len(x), mp.mpf(10) ** -12
        at = mp.matrix(x.tolist())
        unit = [mp.matrix([h * (i == j) for j in range(d)]) for i in range(d)]

        def second(f: Callable, i: int, j: int) -> mp.mpf:
            signs = [(a, b) for a in (1, -1) for b in (1, -1)]
            return sum(a * b * f(at + a * unit[i] + b * unit[j]) for a, b in signs) / (4 * h**2)

        pairs = [[(i, j) for j in range(d)] for i in range(d)]
        own = [[second(lambda y: k(y, y), *p) / 2 for p in row] for row in pairs]
        cross = [[second(lambda y: k(at, y), *p) for p in row] for row in pairs]
        return np.array(own, float) - np.array(cross, float)


BASES = [SmoothedLaplace(1.3, 0.2), Gaussian(0.7), Polynomial(3, 0.5), Polynomial(1, 0.0)]
ALL = [*BASES, FunctionKernel(symmetric_waves)]


@pytest.mark.parametrize("base", ALL, ids=lambda base: type(base).__name__)
def test_metrics_are_second_differences_of_the_kernel(base: object) -> None:
    with mp.workdps(60):
        k = written_out(base)
        expected = np.stack([difference_metric(k, x) for x in X])
    metric = Mahalanobis(base, M).metric(X)
    np.testing.assert_allclose(metric, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("base", ALL, ids=lambda base: type(base).__name__)
def test_metrics_are_mixed_derivatives_of_the_gram_matrix(base: object) -> None:
    kernel = Mahalanobis(base, M)

    def k(x: Tensor, y: Tensor) -> Tensor:
        return kernel(x[None], y[None])[0, 0]

    for x, g in zip(X, kernel.metric(X), strict=True):
        mixed = torch.autograd.functional.hessian(k, (x, x.clone()))[0][1]
        torch.testing.assert_close(mixed, g, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("base", ALL, ids=lambda base: type(base).__name__)
def test_volume_is_that_of_the_base_kernel_times_root_det_m(base: object) -> None:
    """(F.11), at points where g has full rank, which the waves do not have at the origin."""
    kernel, x = Mahalanobis(base, M), X[:2]
    plain = Mahalanobis(base).volume(x @ kernel.root)
    torch.testing.assert_close(kernel.volume(x).log, plain.log + M.logdet() / 2)
    torch.testing.assert_close(kernel.root @ kernel.root, M)
    assert (kernel.volume(x).rank == 3).all()


def test_a_singular_matrix_flattens_directions_and_the_volume_says_so() -> None:
    flat = torch.diag(torch.tensor([4.0, 9.0, 0.0], dtype=torch.float64))
    volume = Mahalanobis(Gaussian(1.0), flat).volume(X)
    assert volume.rank.tolist() == [2, 2, 2]
    torch.testing.assert_close(volume.magnification, torch.full((3,), 6.0, dtype=torch.float64))


def test_distances_survive_close_points_far_from_the_origin() -> None:
    """|x|^2 + |y|^2 - 2 x.y alone would have an error of 1e-4 here."""
    generator = torch.Generator().manual_seed(0)
    x = 1e6 + torch.randn(40, 5, generator=generator, dtype=torch.float64)
    y = torch.cat([x[:20] + 1e-5, x[20:]])
    exact = difference(x, y)
    # relative to 1e-3 of the spread, a matrix product keeps 12 digits
    torch.testing.assert_close(squared_distances(x, y), exact, rtol=1e-11, atol=0)
    assert (Mahalanobis(Laplace(1.0))(x).diagonal() == 1).all()


def test_the_cone_of_the_laplace_kernel_is_refused_and_its_smoothing_sharpens_to_it() -> None:
    with pytest.raises(InputError, match="SmoothedLaplace"):
        Mahalanobis(Laplace(2.0), M).metric(X)
    cone = Mahalanobis(Laplace(2.0), M)(X)
    for e in (1e-3, 1e-6):
        assert (Mahalanobis(SmoothedLaplace(2.0, e), M)(X) - cone).abs().max() < e / 2


def difference(x: Tensor, y: Tensor) -> Tensor:
    return (x[:, None] - y).square().sum(-1)


def asymmetric() -> Tensor:
    return torch.tensor([[1.0, 0.5], [0.0, 1.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (lambda: Laplace(0.0), "bandwidth"),
        (lambda: Gaussian(-1.0), "bandwidth"),
        (lambda: Gaussian(float("nan")), "bandwidth"),
        (lambda: Gaussian("1"), "bandwidth"),
        (lambda: SmoothedLaplace(1.0, 0.0), "smoothing"),
        (lambda: Polynomial(1.5), "degree"),
        (lambda: Polynomial(2, -1.0), "offset"),
        (lambda: Mahalanobis("rbf"), "no kernel"),
        (lambda: Mahalanobis(Gaussian(), asymmetric()), "symmetric"),
        (lambda: Mahalanobis(Gaussian(), M[:2]), "square"),
        (lambda: Mahalanobis(Gaussian(), -M), "semi-definite"),
        (lambda: Mahalanobis(Gaussian(), M)(X[:, :2]), r"\(n, 3\)"),
        (lambda: Mahalanobis(Gaussian())(X[0]), r"\(n, d\)"),
        (lambda: Mahalanobis(Gaussian())(X / 0), "NaN"),
        (lambda: Mahalanobis(Gaussian())([["a"]]), "numbers"),
        (lambda: Mahalanobis(FunctionKernel(waves)).metric(X), "symmetric"),
        (
            lambda: Mahalanobis(FunctionKernel(lambda x, y: -x @ y.T)).volume(X),
            "positive semi-definite",
        ),
        (lambda: Mahalanobis(Gaussian(), M / 0), "M has entries"),
        (lambda: Mahalanobis(FunctionKernel(lambda x, y: x.sum(1)))(X), "shape"),
        (
            lambda: Mahalanobis(FunctionKernel(lambda x, y: (x @ y.T).detach())).metric(X),
            "torch operations",
        ),
        (
            lambda: Mahalanobis(FunctionKernel(lambda x, y: (-torch.cdist(x, y)).exp())).metric(X),
            "twice",
        ),
        (
            lambda: Mahalanobis(FunctionKernel(lambda x, y: -difference(x, y).sqrt())).metric(X),
            "no metric",
        ),
    ],
)
def test_bad_kernels_and_points_are_refused(bad: Callable, match: str) -> None:
    with pytest.raises(InputError, match=match):
        bad()


def city(x: Tensor, y: Tensor) -> Tensor:
    return (x[:, None] - y).abs().sum(-1)


KINKED = {
    "city blocks": lambda x, y: (-city(x, y)).exp(),
    "one axis": lambda x, y: (-(x[:, None, 1] - y[:, 1]).abs()).exp(),
    "root kept from 0": lambda x, y: (-difference(x, y).clamp_min(1e-30).sqrt()).exp(),
    "beside a larger smooth one": lambda x, y: (x @ y.T) ** 2 + 1e-3 * (-city(x, y)).exp(),
}
SMOOTH = {
    "narrow": lambda x, y: (-1e4 * difference(x, y)).exp(),
    "hardly smoothed": lambda x, y: (-(difference(x, y) + 1e-10).sqrt()).exp(),
    "linear": lambda x, y: 1e6 + x @ y.T,
    "kinks elsewhere": lambda x, y: (x @ M).relu() @ (y @ M).relu().T,
}


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_kink_that_torch_does_not_see_is_seen(scale: float) -> None:
    """torch says that |t| has slope 0 at 0, so that a metric of 0 would come out."""
    for name, kernel in (KINKED | SMOOTH).items():
        own = Mahalanobis(FunctionKernel(lambda x, y, k=kernel: k(x / scale, y / scale)))
        if name in SMOOTH:
            assert own.metric(X * scale).abs().max() > 0, name
        else:
            with pytest.raises(InputError, match="no metric"):
                own.metric(X * scale)
