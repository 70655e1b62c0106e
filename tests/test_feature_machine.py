"""The recursive feature machine: gradients, what it learns, and what it refuses."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.utils.estimator_checks import check_estimator
from torch import Tensor

from analytic.expressions.arguments import InputError
from numeric.kernels import FunctionKernel
from numeric.learned import (
    FeatureMachine,
    Gaussian,
    Laplace,
    Mahalanobis,
    Polynomial,
    SmoothedLaplace,
    kernels,
)  # fmt: skip
from test_progress import terminal_for

STATIONARY = [Laplace(3.0), SmoothedLaplace(3.0, 0.2), Gaussian(2.0)]
GENERAL = [
    Polynomial(3, 1.0),
    FunctionKernel(lambda x, y: (0.1 * x @ y.T).exp() + x.sin() @ y.sin().T),
]


def named(values: list) -> dict:
    return {"argvalues": values, "ids": [type(value).__name__ for value in values]}


def cloud(n: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def single_index(n: int, d: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Targets that know one direction of the points, and the direction."""
    u = cloud(1, d, seed + 100)[0]
    u = u / u.norm()
    x = cloud(n, d, seed)
    return x, torch.tanh(2 * x @ u), u


def written_out(base: object, M: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The kernel of one point with many, from its definition."""
    apart = torch.einsum("bi,ij,bj->b", x - y, M, x - y)
    match base:
        case Laplace(L):
            return torch.exp(-apart.sqrt() / L)
        case SmoothedLaplace(L, e):
            return torch.exp(-((apart + e**2).sqrt() - e) / L)
        case Gaussian(L):
            return torch.exp(-apart / (2 * L**2))
        case Polynomial(q, c):
            return (y @ M @ x + c) ** q
    values, vectors = torch.linalg.eigh(M)
    root = vectors @ values.sqrt().diag() @ vectors.T
    x, y = root @ x, y @ root
    return (0.1 * y @ x).exp() + y.sin() @ x.sin()


@pytest.mark.parametrize("base", **named([*STATIONARY, *GENERAL]))
def test_gradients_are_those_of_torch(base: object) -> None:
    """Of two outputs at once; at a centre the Laplace kernel has none, so it is tried elsewhere."""
    x, y = cloud(40, 4), cloud(40, 2, seed=1)
    machine = FeatureMachine(base, iterations=1, ridge=0.1).fit(x, y)
    M, at = machine.kernel_.matrix, cloud(5, 4, seed=2)
    for point, slopes in zip(at, machine.gradient(at), strict=True):

        def f(z: Tensor) -> Tensor:
            return written_out(base, M, z, x) @ machine.weights_

        torch.testing.assert_close(f(point)[None], machine.predict(point[None]))
        expected = torch.autograd.functional.jacobian(f, point)
        torch.testing.assert_close(slopes, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("base", **named([*STATIONARY[1:], *GENERAL]))
def test_the_matrix_is_the_mean_outer_product_of_gradients(base: object) -> None:
    """(F.4), scaled to trace d."""
    x, y = cloud(40, 4), cloud(40, 1, seed=1)[:, 0]
    plain = FeatureMachine(base, iterations=0, ridge=0.1).fit(x, y)
    unit = torch.eye(4, dtype=torch.float64)
    slopes = torch.stack(
        [
            torch.autograd.functional.jacobian(
                lambda z: written_out(base, unit, z, x) @ plain.weights_, a
            )
            for a in x
        ]
    )
    M = torch.einsum("ai,aj->ij", slopes, slopes) / 40
    once = FeatureMachine(base, iterations=1, ridge=0.1).fit(x, y)
    torch.testing.assert_close(once.matrices_[1], 4 * M / M.trace(), rtol=1e-9, atol=1e-9)


def test_a_cone_at_the_point_itself_adds_no_slope() -> None:
    """Two points with a Laplace kernel: at each, only the other one pulls."""
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=torch.float64)
    weights = torch.tensor([[2.0], [7.0]], dtype=torch.float64)
    slopes = Mahalanobis(Laplace(2.0)).gradient(x, x, weights)[:, 0]
    along = torch.tensor([0.6, 0.8], dtype=torch.float64) * np.exp(-2.5) / 2
    torch.testing.assert_close(slopes, torch.stack([7 * along, -2 * along]))


@pytest.mark.parametrize("base", **named([Laplace(10.0), SmoothedLaplace(10.0), Gaussian(5.0)]))
def test_the_relevant_direction_is_found(base: object) -> None:
    """Cosines of 0.9999 and better were measured; the fit is then far better than without features."""
    x, y, u = single_index(500, 20)
    machine = FeatureMachine(base).fit(x, y)
    top = torch.linalg.eigh(machine.kernel_.matrix)[1][:, -1]
    assert abs(top @ u) > 0.99
    fresh = cloud(500, 20, seed=5)
    targets = torch.tanh(2 * fresh @ u)
    plain = FeatureMachine(base, iterations=0).fit(x, y)
    assert 1 - machine.score(fresh, targets) < 0.05 * (1 - plain.score(fresh, targets))


def test_the_history_starts_at_one_and_keeps_the_trace() -> None:
    x, y, _ = single_index(60, 5)
    machine = FeatureMachine(iterations=3).fit(x, y)
    assert machine.matrices_.shape == (4, 5, 5)
    assert (machine.matrices_[0] == torch.eye(5)).all()
    traces = machine.matrices_.diagonal(dim1=1, dim2=2).sum(1)
    torch.testing.assert_close(traces, torch.full((4,), 5.0, dtype=torch.float64))
    assert (machine.matrices_[-1] == machine.kernel_.matrix).all()


def test_flat_targets_teach_nothing() -> None:
    machine = FeatureMachine().fit(cloud(20, 3), torch.zeros(20))
    assert (machine.kernel_.matrix == torch.eye(3)).all()
    assert (machine.predict(cloud(5, 3, seed=1)) == 0).all()


def test_without_iterations_it_is_kernel_ridge_regression() -> None:
    x, y, _ = single_index(80, 4)
    rival = KernelRidge(kernel="rbf", gamma=1 / 8, alpha=0.01).fit(x.numpy(), y.numpy())
    machine = FeatureMachine(Gaussian(2.0), ridge=0.01, iterations=0).fit(x, y)
    fresh = cloud(20, 4, seed=3)
    # the condition number is below 1e4
    np.testing.assert_allclose(machine.predict(fresh), rival.predict(fresh.numpy()), atol=1e-11)


def test_it_reproduces_its_targets_as_the_ridge_vanishes() -> None:
    x, y, _ = single_index(80, 4)

    def miss(ridge: float) -> float:
        return float((FeatureMachine(ridge=ridge).fit(x, y).predict(x) - y).abs().max())

    misses = [miss(ridge) for ridge in (1e-2, 1e-4, 1e-6)]
    assert misses[0] > 20 * misses[1] > 400 * misses[2] > 0
    assert miss(0.0) < 1e-10


@pytest.mark.parametrize("base", **named([Laplace(4.0), Gaussian(4.0), Polynomial(2)]))
def test_rotated_points_give_the_rotated_matrix(base: object) -> None:
    x, y, _ = single_index(60, 5)
    turn, _ = torch.linalg.qr(cloud(5, 5, seed=7))
    machine = FeatureMachine(base, iterations=3, ridge=0.01).fit(x, y)
    turned = FeatureMachine(base, iterations=3, ridge=0.01).fit(x @ turn, y)
    fresh = cloud(10, 5, seed=8)
    torch.testing.assert_close(turned.predict(fresh @ turn), machine.predict(fresh))
    torch.testing.assert_close(turned.kernel_.matrix, turn.T @ machine.kernel_.matrix @ turn)


def test_chunks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = cloud(50, 4), cloud(50, 3, seed=1)
    whole = FeatureMachine().fit(x, y)
    monkeypatch.setattr(kernels, "CHUNK", 50 * 3 * 7)
    torch.testing.assert_close(FeatureMachine().fit(x, y).matrices_, whole.matrices_)


def test_arrays_and_tensors_give_the_same_and_come_back_as_they_went() -> None:
    x, y, _ = single_index(40, 3)
    machine = FeatureMachine().fit(x, y)
    other = clone(machine).fit(x.numpy(), y.numpy())
    assert clone(machine).get_params() == machine.get_params()
    assert machine.set_params(ridge=0.5).ridge == 0.5
    assert isinstance(other.predict(x.numpy()), np.ndarray)
    assert (machine.predict(x) == torch.tensor(other.predict(x.numpy()))).all()
    assert machine.gradient(x).shape == (40, 3)


def test_the_progress_bar_shows_unless_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, _ = single_index(20, 3)
    shown = terminal_for(monkeypatch)
    FeatureMachine(progress=False, iterations=2).fit(x, y)
    assert shown.getvalue() == ""
    FeatureMachine(iterations=2).fit(x, y)
    assert "updates of M" in shown.getvalue()


def test_it_keeps_the_conventions_of_scikit_learn() -> None:
    checks = check_estimator(FeatureMachine(iterations=1), on_fail=None, on_skip=None)
    assert [c["check_name"] for c in checks if c["status"] not in ("passed", "skipped")] == []
    assert sum(c["status"] == "passed" for c in checks) > 40


REPEATED = cloud(4, 3)[[0, 1, 2, 3, 0]]


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (lambda x, y: FeatureMachine(ridge=-1e-3).fit(x, y), "ridge"),
        (lambda x, y: FeatureMachine(ridge=float("inf")).fit(x, y), "ridge"),
        (lambda x, y: FeatureMachine(iterations=-1).fit(x, y), "iterations"),
        (lambda x, y: FeatureMachine(Mahalanobis(Laplace(1.0))).fit(x, y), "base kernel"),
        (lambda x, y: FeatureMachine("laplace").fit(x, y), "no kernel"),
        (lambda x, y: FeatureMachine().fit(x / 0, y), "NaN"),
        (lambda x, y: FeatureMachine().fit(x, y / 0), "y has entries"),
        (lambda x, y: FeatureMachine().fit(x, y[:3]), "inconsistent"),
        (lambda x, y: FeatureMachine().fit(x[:1], y[:1]), "minimum of 2"),
        (lambda x, y: FeatureMachine().fit(x, None), "y is None"),
        (lambda x, y: FeatureMachine().fit(x, ["a"] * 5), "targets are numbers"),
        (lambda x, y: FeatureMachine().fit(x, y).predict(x[:, :2]), "features"),
        (lambda x, y: FeatureMachine(ridge=0.0).fit(REPEATED, y), "singular"),
        (lambda x, y: FeatureMachine(Gaussian(1e4), ridge=0.0).fit(x, y), "raise ridge"),
        (lambda x, y: FeatureMachine(device="nowhere").fit(x, y), "device"),
    ],
)
def test_bad_input_is_refused(bad: Callable, match: str) -> None:
    with pytest.raises(InputError, match=match):
        bad(cloud(5, 3), cloud(5, 1, seed=1)[:, 0])


def test_repeated_points_are_fine_with_a_ridge() -> None:
    y = torch.tensor([1.0, 0.0, 2.0, -1.0, 2.0], dtype=torch.float64)
    machine = FeatureMachine(ridge=1e-6).fit(REPEATED, y)
    assert abs(machine.predict(REPEATED[:1]).item() - 1.5) < 1e-4  # the mean of the two


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_features_do_not_depend_on_the_unit_of_the_targets(scale: float) -> None:
    x, y = cloud(30, 3), cloud(30, 1, seed=1)[:, 0]
    one, other = (FeatureMachine(Laplace(2.0)).fit(x, unit * y) for unit in (1.0, scale))
    torch.testing.assert_close(other.kernel_.matrix, one.kernel_.matrix, rtol=1e-10, atol=1e-12)
    assert (one.kernel_.matrix - torch.eye(3)).abs().max() > 0.1
