"""Evidence, and predictions from singular Gram matrices, against the same in forty digits."""

import math
import re
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from mpmath import mp
from torch import Tensor

from analytic.expressions.arguments import InputError
from numeric.infinite.evidence import log_marginal_likelihood
from numeric.infinite.prediction import gradient_flow, posterior
from numeric.kernels.spectrum import SingularGram

F64 = torch.float64


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


@dataclass(frozen=True)
class Squares:
    """One hidden layer of squares: inner = b0^2 + w0^2 x.y, kernel = b1^2 + w1^2 inner^2."""

    sigma_w: tuple[float, float] = (0.8, 1.3)
    sigma_b: tuple[float, float] = (0.5, 0.3)

    def nngp(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        inner = self.sigma_b[0] ** 2 + self.sigma_w[0] ** 2 * x @ (x if y is None else y).T
        return self.sigma_b[1] ** 2 + self.sigma_w[1] ** 2 * inner**2

    def nngp_gradient(self, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        (w0, w1), (b0, b1), dot = self.sigma_w, self.sigma_b, x @ x.T
        inner = b0**2 + w0**2 * dot
        outer = 2 * w1**2 * inner
        by_w = [(weights * g).sum() for g in (outer * 2 * w0 * dot, 2 * w1 * inner**2)]
        by_b = [(weights * g).sum() for g in (outer * 2 * b0, torch.full_like(dot, 2 * b1))]
        return torch.stack(by_w), torch.stack(by_b)


X, Y = normal(7, 4, seed=0), normal(7, 2, seed=1)
SCALES = ("w0", "w1", "b0", "b1", "noise")


def density(points: Tensor, *scales: object) -> object:
    """log N(Y | 0, C) by LU decomposition at the working precision."""
    w0, w1, b0, b1, noise = scales
    x, y = mp.matrix(points.tolist()), mp.matrix(Y.tolist())
    inner = (x * x.T).apply(lambda v: (b0**2 + w0**2 * v) ** 2)
    C = inner.apply(lambda v: b1**2 + w1**2 * v) + noise * mp.eye(7)
    fit = sum(y[i, c] * mp.lu_solve(C, y[:, c])[i] for c in range(2) for i in range(7))
    return -fit / 2 - mp.log(mp.det(C)) - 7 * mp.log(2 * mp.pi)


@pytest.mark.parametrize(("noise", "gap"), [(0.0, 1), (1e-3, 1), (0.7, 1), (0.0, 1e-3), (1e-7, 0)])
def test_value_and_every_derivative_against_forty_digits(noise: float, gap: float) -> None:
    net, x = Squares(), X.clone()
    x[6] = x[5] + gap * x[6]  # two points may be close, or one
    computed = log_marginal_likelihood(net, x, Y, noise)
    with mp.workdps(40):
        at = [*map(mp.mpf, (*net.sigma_w, *net.sigma_b, noise))]
        value, exact, h = density(x, *at), [], mp.mpf(10) ** -15
        for i in range(5):
            up, down = ([v + s * h * (j == i) for j, v in enumerate(at)] for s in (1, -1))
            exact.append(float((density(x, *up) - density(x, *down)) / (2 * h)))
    lost = 7 * torch.finfo(F64).eps * computed.condition  # what rounding C may move
    assert (computed.condition > 1e6) == (gap < 1)
    assert computed.value == pytest.approx(float(value), rel=lost)
    gradient = [*computed.gradient.sigma_w.tolist(), *computed.gradient.sigma_b.tolist()]
    # one point with two targets: entries of W as large as the last derivative cancel in the others
    slack = 7 * torch.finfo(F64).eps * abs(exact[-1]) * net.nngp(x).max().item()
    for name, mine, theirs in zip(SCALES, [*gradient, computed.gradient.noise], exact, strict=True):
        assert mine == pytest.approx(theirs, rel=lost, abs=slack), name


def test_outputs_are_independent_and_a_column_may_be_flat() -> None:
    both = log_marginal_likelihood(Squares(), X, Y, 0.1)
    parts = [log_marginal_likelihood(Squares(), X, Y[:, c], 0.1) for c in range(2)]
    assert both.value == pytest.approx(sum(part.value for part in parts), rel=1e-13)
    for name in ("sigma_w", "sigma_b"):
        summed = sum(getattr(part.gradient, name) for part in parts)
        torch.testing.assert_close(getattr(both.gradient, name), summed, rtol=1e-11, atol=0)


def test_gradient_leads_uphill_to_a_maximum() -> None:
    """At the best noise for one output of pure noise its derivative vanishes, at its mean square."""
    silent = Squares((0.0, 0.0), (0.0, 0.0))
    best = Y.square().mean().item()
    assert log_marginal_likelihood(silent, X, Y, best).gradient.noise == pytest.approx(0, abs=1e-12)
    assert log_marginal_likelihood(silent, X, Y, best / 2).gradient.noise > 1
    assert log_marginal_likelihood(silent, X, Y, best * 2).gradient.noise < -1


def test_single_precision() -> None:
    single = log_marginal_likelihood(Squares(), X.float(), Y.float(), 0.5)
    double = log_marginal_likelihood(Squares(), X, Y, 0.5)
    assert single.gradient.sigma_w.dtype == torch.float32
    lost = 10 * 7 * torch.finfo(torch.float32).eps * double.condition
    assert single.value == pytest.approx(double.value, rel=lost)
    assert lost < 0.1


def network_with_gram(gram: Tensor) -> SimpleNamespace:
    """A network whose Gram matrices are what one says."""
    return SimpleNamespace(nngp=lambda x, y=None: gram, ntk=lambda x, y=None: gram)


def test_the_gram_matrix_of_a_network_is_left_alone() -> None:
    gram = Squares().nngp(X)
    log_marginal_likelihood(network_with_gram(gram), X, Y, 0.5)
    assert torch.equal(gram, Squares().nngp(X))


@pytest.mark.parametrize(
    ("gram", "message"),
    [
        ([[1.0, 2.0], [2.0, 1.0]], "no negative eigenvalues, but this one has -1 beside 3"),
        ([[-1.0, 0.0], [0.0, -2.0]], "no negative eigenvalues, but this one has -2 beside -1"),
        ([[math.nan, 0.0], [0.0, 1.0]], "Gram matrix has entries that are NaN or infinite"),
    ],
)
def test_what_is_no_gram_matrix_is_refused(gram: list, message: str) -> None:
    net, x, y = network_with_gram(torch.tensor(gram, dtype=F64)), X[:2], Y[:2]
    for call in (gradient_flow, partial(posterior, x_test=None, noise=0.1)):
        with pytest.raises(InputError, match=message):
            call(net, x, y)
    with pytest.raises(InputError, match=message):
        log_marginal_likelihood(net, x, y, 0.0)


def test_a_slightly_negative_eigenvalue_tells_how_rough_the_others_are() -> None:
    rough = torch.diag(torch.tensor([1.0, 1.5e-10, -1e-10], dtype=F64))
    with pytest.warns(SingularGram, match="2 of 3 eigenvalues at or below 2e-10"):
        assert gradient_flow(network_with_gram(rough), X[:3], Y[:3]).rank == 1
    with pytest.warns(SingularGram, match=r"number inf, 3 of 3 .* ridge = [1-9]"):
        assert not gradient_flow(network_with_gram(0 * rough), X[:3], Y[:3]).mean.any()


def test_a_direction_that_rounding_loses_is_learnt_at_its_pace() -> None:
    """f = theta . x: the two targets differ by 2, so theta_2 grows as h t until t is about 1/h^2."""
    h, t = 1e-8, 1e3
    x, y = torch.tensor([[1.0, 0.0], [1.0, h]], dtype=F64), torch.tensor([-1.0, 1.0], dtype=F64)
    net = SimpleNamespace(ntk=lambda a, b=None: a @ (a if b is None else b).T)
    computed = gradient_flow(net, x, y, torch.tensor([[0.0, 1.0]], dtype=F64), t=t)
    assert computed.rank == 1
    assert computed.mean.item() == pytest.approx(h * t, rel=1e-12)


def bell(a: Tensor, b: Tensor | None = None) -> Tensor:
    return torch.exp(-((a[:, None] - (a if b is None else b)).square().sum(-1)) * 3)


@pytest.mark.parametrize(("t", "ridge"), [(1, 0), (1e3, 0), (1e8, 0), (math.inf, 1e-4)])
def test_singular_gram_matrices_predict_as_in_forty_digits(t: float, ridge: float) -> None:
    n, m = 16, 4
    x, new = (torch.linspace(*ends, dtype=F64)[:, None] for ends in ((0, 1, n), (-0.1, 0.8, m)))
    y = torch.sin(3 * x[:, 0])
    with mp.workdps(40):
        at = [mp.mpf(v) for v in torch.cat([x, new])[:, 0].tolist()]
        gram = mp.matrix([[mp.exp(-3 * (a - b) ** 2) for b in at] for a in at])
        values, U = mp.eigsy(gram[:n, :n])
        rates = [v + mp.mpf(ridge) for v in values]
        phi = mp.diag([1 / v if t == math.inf else -mp.expm1(-t * v) / v for v in rates])
        A = gram[n:, :n] * U * phi * U.T
        whole = mp.matrix(m, n + m)
        whole[:, :n], whole[:, n:] = -A, mp.eye(m)
        mean, cov = A * mp.matrix(y.tolist()), whole * gram * whole.T
    assert max(values) / min(values) > 1e20
    computed = gradient_flow(SimpleNamespace(nngp=bell, ntk=bell), x, y, new, t=t, ridge=ridge)
    # y lies in the space of the kernel, so |phi(T) y| grows as sqrt t, and that times n eps is lost
    reach = min(t, 1 / ridge) if ridge else t
    close = {"rtol": 0, "atol": 4 * n * torch.finfo(F64).eps * math.sqrt(reach)}
    torch.testing.assert_close(computed.mean, torch.tensor([*map(float, mean)], dtype=F64), **close)
    exact = torch.tensor([[float(v) for v in cov[i, :]] for i in range(m)], dtype=F64)
    torch.testing.assert_close(computed.covariance, exact, **close)


@pytest.mark.parametrize("noise", [0.0, 1e-30])
def test_a_singular_covariance_is_refused_with_a_noise_that_would_do(noise: float) -> None:
    x, y = torch.cat([X, X[:1]]), torch.cat([Y, Y[:1]])
    with pytest.raises(InputError, match=r"no density.*condition number.* 1 of 8 eig") as computed:
        log_marginal_likelihood(Squares(), x, y, noise)
    enough = float(re.search(r"take noise = (\S+) or more", str(computed.value))[1])
    assert 0 < enough < 1e-9
    assert math.isfinite(log_marginal_likelihood(Squares(), x, y, enough).value)


def test_a_covariance_that_cholesky_bears_may_still_be_singular() -> None:
    gram = torch.diag(torch.tensor([1.0, 1e-17], dtype=F64))
    with pytest.raises(InputError, match=r"no density.*number 1e\+17, 1 of 2 eigenvalues"):
        log_marginal_likelihood(network_with_gram(gram), X[:2], Y[:2], 0.0)
    turn, eps = torch.linalg.qr(X @ X.T)[0], torch.finfo(F64).eps
    barely = turn @ torch.diag(torch.tensor([1.0] * 6 + [2 * 7 * eps], dtype=F64)) @ turn.T
    computed = log_marginal_likelihood(network_with_gram((barely + barely.T) / 2), X, Y, 0.0)
    assert computed.condition > 1 / (7 * eps)  # in the 1-norm; its eigenvalues are all above 7 eps


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"noise": -1.0}, "noise = -1.0 .* at least 0"),
        ({"noise": math.nan}, "noise = nan"),
        ({"y": Y[:3]}, r"shape \(3, 2\) .* for 7 training points"),
        ({"y": Y.float()}, "convert one of them"),
        ({"x": X * math.nan}, "NaN"),
        ({"x": X * 1e200}, "Gram matrix has entries that are NaN or infinite"),
    ],
)
def test_bad_input_is_told(changed: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        log_marginal_likelihood(Squares(), **({"x": X, "y": Y, "noise": 0.1} | changed))
