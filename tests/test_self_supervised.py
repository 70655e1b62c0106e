"""The self-supervised kernel against a transcription of (F.13)-(F.18) and its own derivatives."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import Tensor

from analytic.expressions.arguments import InputError
from numeric.learned import (
    Gaussian,
    Laplace,
    Mahalanobis,
    Polynomial,
    SelfSupervisedKernel,
    SmoothedLaplace,
)

L = 1.2


def cloud(n: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pairs(p: int, d: int) -> tuple[Tensor, Tensor]:
    x = cloud(p, d)
    return x, x + 0.2 * cloud(p, d, seed=1)


def gaussian(x: Tensor, y: Tensor) -> Tensor:
    return torch.exp(-(x[:, None] - y).square().sum(-1) / (2 * L**2))


def as_printed(x: Tensor, partners: Tensor, components: int) -> Tensor:
    """Q of (F.18), block by block, with pseudoinverses."""
    p = len(x)
    xx, xy, yy = gaussian(x, x), gaussian(x, partners), gaussian(partners, partners)
    K = torch.cat([torch.cat([xx, xy], 1), torch.cat([xy.T, yy], 1)])
    half = torch.cat([torch.cat([xy @ xx, xy @ xy], 1), torch.cat([yy @ xx, yy @ xy], 1)])
    Z = (half + half.T) / (2 * p)
    values, vectors = torch.linalg.eigh(K)
    root = vectors @ torch.where(values > 1e-11, values.abs() ** -0.5, 0).diag() @ vectors.T
    values, vectors = torch.linalg.eigh(root @ Z @ root)
    top, u = values[-components:], vectors[:, -components:]
    return root @ u @ (1 / top).diag() @ u.T @ root


@pytest.mark.parametrize("components", [1, 3, 5])
def test_the_kernel_is_the_one_that_is_printed(components: int) -> None:
    """(F.17); the transcription divides by roots of eigenvalues down to 1e-6 of the first."""
    x, partners = pairs(12, 2)
    learned = SelfSupervisedKernel(Gaussian(L), components=components).fit(x, partners)
    Q, at = as_printed(x, partners, components), cloud(6, 2, seed=2)
    rows = gaussian(at, torch.cat([x, partners]))
    torch.testing.assert_close(learned(at), rows @ Q @ rows.T, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(learned(at, x), learned.transform(at) @ learned.transform(x).T)


@pytest.mark.parametrize(
    "kernel", [Gaussian(L), Laplace(3.0), SmoothedLaplace(3.0), Polynomial(3)], ids=str
)
def test_pairs_agree_on_features_that_are_white(kernel: object) -> None:
    """What Barlow Twins asks: the symmetrised mean of f(x) f(x')^T is the unit matrix."""
    x, partners = pairs(40, 3)
    learned = SelfSupervisedKernel(kernel, components=4).fit(x, partners)
    left, right = learned.transform(x), learned.transform(partners)
    cross = left.T @ right / 40
    torch.testing.assert_close(
        (cross + cross.T) / 2, torch.eye(4, dtype=torch.float64), rtol=0, atol=1e-9
    )
    assert (learned.spectrum_.diff() <= 0).all()


def test_no_features_of_the_same_norm_agree_better() -> None:
    """The first is the function of unit norm, w K w = 1, whose mean of f(x) f(x') is largest."""
    x, partners = pairs(15, 2)
    learned = SelfSupervisedKernel(Gaussian(L), components=1).fit(x, partners)
    K = gaussian(learned.points_, learned.points_)

    def agreement(w: Tensor) -> Tensor:
        f = K @ w
        return (f[:15] * f[15:]).mean() / (w @ f)

    best = agreement(learned.weights_[:, 0])
    torch.testing.assert_close(best, learned.spectrum_[0])
    nearby = learned.weights_[:, 0] + 0.1 * cloud(50, 30, seed=3)
    assert max(agreement(w) for w in [*cloud(50, 30, seed=4), *nearby]) < best


@pytest.mark.parametrize("components", [1, 2, 4])
def test_the_metric_is_the_mixed_derivative_of_the_kernel(components: int) -> None:
    """(F.20) by torch and by differences, of (F.19) as a function of two points."""
    x, partners = pairs(12, 2)
    learned = SelfSupervisedKernel(Gaussian(L), components=components).fit(x, partners)
    Q, at = learned.weights_ @ learned.weights_.T, cloud(4, 2, seed=2)

    def k(a: Tensor, b: Tensor) -> Tensor:
        left, right = (gaussian(z[None], torch.cat([x, partners]))[0] for z in (a, b))
        return left @ Q @ right

    step = 1e-3 * torch.eye(2, dtype=torch.float64)
    for a, g in zip(at, learned.metric(at), strict=True):
        mixed = torch.autograd.functional.hessian(k, (a, a.clone()))[0][1]
        torch.testing.assert_close(g, mixed, rtol=1e-9, atol=1e-9)
        rough = [
            [sum(s * t * k(a + s * u, a + t * v) for s in (1, -1) for t in (1, -1)) for v in step]
            for u in step
        ]
        # a step of 1e-3 leaves an error of its square times a fourth derivative
        torch.testing.assert_close(
            g, torch.tensor(rough, dtype=torch.float64) / 4e-6, rtol=1e-4, atol=1e-4
        )


def test_fewer_components_than_dimensions_flatten_the_rest() -> None:
    x, partners = pairs(30, 3)
    at = cloud(5, 3, seed=2)
    for components in (1, 2, 3, 6):
        learned = SelfSupervisedKernel(Gaussian(L), components=components).fit(x, partners)
        volume, g = learned.volume(at), learned.metric(at)
        assert (volume.rank == min(components, 3)).all()
        nonzero = torch.linalg.eigvalsh(g)[:, -min(components, 3) :]
        torch.testing.assert_close(volume.magnification, nonzero.prod(1).sqrt(), rtol=1e-8, atol=0)


def test_the_kernel_knows_neither_the_order_of_a_pair_nor_a_rotation() -> None:
    x, partners = pairs(20, 3)
    learned = SelfSupervisedKernel(Gaussian(L), components=3).fit(x, partners)
    at, (turn, _) = cloud(6, 3, seed=2), torch.linalg.qr(cloud(3, 3, seed=7))
    some = (torch.arange(20) % 3 == 0)[:, None]
    swapped = clone(learned).fit(x.where(some, partners), partners.where(some, x))
    torch.testing.assert_close(swapped(at), learned(at), rtol=1e-8, atol=1e-8)
    turned = clone(learned).fit(x @ turn, partners @ turn)
    torch.testing.assert_close(turned(at @ turn), learned(at), rtol=1e-8, atol=1e-8)
    metric = turn.T @ learned.metric(at) @ turn
    torch.testing.assert_close(turned.metric(at @ turn), metric, rtol=1e-8, atol=1e-8)


def test_repeated_points_and_pairs_of_one_point_are_fine() -> None:
    """K is singular then, which (F.15) takes by pseudoinverse."""
    x = cloud(8, 2)[[0, 1, 2, 3, 4, 5, 6, 7, 0, 1]]
    learned = SelfSupervisedKernel(Gaussian(L), components=2).fit(x, x)
    features = learned.transform(x)
    torch.testing.assert_close(features.T @ features / 10, torch.eye(2, dtype=torch.float64))
    # the pairs are points twice, so that K_Gamma has the eigenvalues of the kernel's mean
    torch.testing.assert_close(
        learned.spectrum_[:2], torch.linalg.eigvalsh(gaussian(x, x)).flip(0)[:2] / 10
    )


def test_a_matrix_in_the_kernel_is_a_change_of_coordinates() -> None:
    M = torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=torch.float64)
    (x, partners), at = pairs(15, 2), cloud(5, 2, seed=2)
    framed = Mahalanobis(Gaussian(L), M)
    learned = SelfSupervisedKernel(framed, components=3).fit(x, partners)
    plain = SelfSupervisedKernel(Gaussian(L), components=3).fit(
        x @ framed.root, partners @ framed.root
    )
    torch.testing.assert_close(learned.transform(at), plain.transform(at @ framed.root))
    expected = plain.volume(at @ framed.root).log + M.logdet() / 2
    torch.testing.assert_close(learned.volume(at).log, expected)


def test_arrays_and_tensors_give_the_same() -> None:
    x, partners = pairs(15, 2)
    learned = SelfSupervisedKernel(components=2)
    features = learned.fit_transform(x.numpy(), partners.numpy())
    assert (learned.predict(x.numpy()) == features).all()
    assert isinstance(features, np.ndarray)
    assert (clone(learned).fit_transform(x, partners) == torch.tensor(features)).all()
    assert learned.set_params(components=3).get_params()["components"] == 3


X, PARTNERS = pairs(6, 2)
FAR = 1e3 * torch.eye(3, dtype=torch.float64)


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (lambda: SelfSupervisedKernel().fit(X, PARTNERS[:5]), "partner"),
        (lambda: SelfSupervisedKernel().fit(X, PARTNERS[:, :1]), "partner"),
        (lambda: SelfSupervisedKernel().fit(X, PARTNERS / 0), "positives has"),
        (lambda: SelfSupervisedKernel().fit(X[0], PARTNERS), "2D array"),
        (lambda: SelfSupervisedKernel().fit(X, None), "partner"),
        (lambda: SelfSupervisedKernel(components=0).fit(X, PARTNERS), "components"),
        (lambda: SelfSupervisedKernel(components=99).fit(X, PARTNERS), "fewer components"),
        (lambda: SelfSupervisedKernel(components=2).fit(X[:1], PARTNERS[:1]), "only 1 eig"),
        (lambda: SelfSupervisedKernel(components=1).fit(FAR, FAR), "equal eigenvalues"),
        (lambda: SelfSupervisedKernel(Laplace(1.0)).fit(X, PARTNERS).metric(X), "cone"),
        (lambda: SelfSupervisedKernel().fit(X, PARTNERS).transform(X[:, :1]), "features"),
    ],
)
def test_bad_input_is_refused(bad: Callable, match: str) -> None:
    with pytest.raises(InputError, match=match):
        bad()


def test_the_cone_of_a_laplace_kernel_is_at_training_points_only() -> None:
    learned = SelfSupervisedKernel(Laplace(1.0)).fit(X, PARTNERS)
    assert (learned.volume(X + 0.01).rank == 2).all()
