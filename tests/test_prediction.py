"""Trained ensembles and posteriors, against models whose parameters are trained one step at a time."""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from analytic.expressions.arguments import InputError
from numeric.estimate import Estimate
from numeric.infinite.prediction import ZeroInitial, gradient_flow, posterior
from numeric.kernels.spectrum import SingularGram

F64 = torch.float64


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


@dataclass(frozen=True)
class Waves:
    """f(x) = psi(x) . theta with theta_0 ~ N(0, diag(scales^2)): linear in its parameters."""

    frequencies: Tensor  # (d, p)
    phases: Tensor
    scales: Tensor

    @classmethod
    def draw(cls, p: int, seed: int = 3) -> "Waves":
        return cls(normal(2, p, seed=seed), normal(p, seed=seed + 1), 1 + normal(p, seed=4).abs())

    def features(self, x: Tensor) -> Tensor:
        kind = [part.to(x) for part in (self.frequencies, self.phases)]
        return torch.cos(x @ kind[0] + kind[1]) / math.sqrt(self.phases.numel() / 2)

    def nngp(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        other = x if y is None else y
        return (self.features(x) * self.scales.to(x) ** 2) @ self.features(other).T

    def ntk(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        return self.features(x) @ self.features(x if y is None else y).T

    def train(self, theta: Tensor, y: Tensor, t: float, ridge: float, steps: int = 400) -> Tensor:
        """(p, draws) parameters after a time t of the flow on X, in Runge-Kutta steps."""
        psi, start, h = self.features(X), theta, t / steps

        def rate(at: Tensor) -> Tensor:
            return -psi.T @ (psi @ at - y) - ridge * (at - start)

        for _ in range(steps):
            a = rate(theta)
            b = rate(theta + h / 2 * a)
            c = rate(theta + h / 2 * b)
            theta = theta + h / 6 * (a + 2 * b + 2 * c + rate(theta + h * c))
        return theta


@dataclass(frozen=True)
class Bell:
    """A Gaussian kernel, whose Gram matrix loses rank to rounding as soon as points are close."""

    width: float = 0.4

    def nngp(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        other = x if y is None else y
        return torch.exp(-((x[:, None] - other).square().sum(-1)) / (2 * self.width**2))

    ntk = nngp


X, Y, NEW = normal(8, 2, seed=0), normal(8, 3, seed=1), normal(5, 2, seed=2)
NET = Waves.draw(40)  # overparametrised: it can fit X
LINE, WIDE = (torch.linspace(*ends, dtype=F64)[:, None] for ends in ((0, 1, 60), (-0.1, 1.1, 83)))


@pytest.mark.parametrize("net", [NET, Waves.draw(5)], ids=["more parameters", "fewer"])
@pytest.mark.parametrize("noise", [0.01, 0.5])
def test_posterior_is_that_of_bayesian_linear_regression(net: Waves, noise: float) -> None:
    psi, new = net.features(X), net.features(NEW)
    weights = torch.linalg.inv(psi.T @ psi / noise + torch.diag(net.scales**-2))
    computed = posterior(net, X, Y, NEW, noise=noise)
    torch.testing.assert_close(
        computed.mean, new @ weights @ psi.T @ Y / noise, rtol=1e-9, atol=1e-11
    )
    torch.testing.assert_close(computed.covariance, new @ weights @ new.T, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("t", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("net", [NET, Waves.draw(5)], ids=["more parameters", "fewer"])
def test_flow_is_that_of_parameters_drawn_back_to_their_start(
    net: Waves, t: float, ridge: float
) -> None:
    """Trained parameters are affine in theta_0: its image under unit vectors is all that matters."""
    new, p = net.features(NEW), net.phases.numel()
    mean = new @ net.train(torch.zeros(p, 3, dtype=F64), Y, t, ridge)
    image = new @ net.train(torch.diag(net.scales), torch.zeros(8, 1, dtype=F64), t, ridge)
    computed = gradient_flow(net, X, Y, NEW, t=t, ridge=ridge)
    torch.testing.assert_close(computed.mean, mean, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(computed.covariance, image @ image.T, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(computed.std, image.norm(dim=1), rtol=1e-8, atol=1e-9)


def test_ensemble_of_trained_models_has_this_mean_and_covariance() -> None:
    draws, t = 4000, 2.0
    start = NET.scales[:, None] * normal(40, draws, seed=9)
    outputs = (NET.features(NEW) @ NET.train(start, Y[:, :1], t, 0.0, steps=60)).T
    computed = gradient_flow(NET, X, Y[:, 0], NEW, t=t)
    assert computed.mean.shape == (5,)
    assert Estimate.of(outputs).sigmas_from(computed.mean).max() < 4
    off = outputs - computed.mean
    pairs = Estimate.of(off[:, :, None] * off[:, None, :])
    assert pairs.sigmas_from(computed.covariance).max() < 4
    assert pairs.sigmas_from(NET.nngp(NEW)).max() > 20  # the prior is refused


def test_limits_of_time() -> None:
    times = [0.0, 0.7, 1e9, math.inf]
    path = gradient_flow(NET, X, Y, NEW, t=times)
    assert path.mean.shape == (4, 5, 3)
    assert path.covariance.shape == (4, 5, 5)
    assert path.std.shape == (4, 5)
    torch.testing.assert_close(path.covariance[0], NET.nngp(NEW))
    assert not path.mean[0].any()
    first = gradient_flow(NET, X, Y, NEW, t=1e-12).mean / 1e-12
    torch.testing.assert_close(first, NET.ntk(NEW, X) @ Y, rtol=1e-10, atol=0)
    for i, t in enumerate(times):
        alone = gradient_flow(NET, X, Y, NEW, t=t)
        torch.testing.assert_close(path.mean[i], alone.mean, rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(path.covariance[i], alone.covariance, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(path.mean[2], path.mean[3], rtol=1e-11, atol=1e-12)
    for ridge in (0.0, 0.2):
        fit = torch.linalg.solve(NET.ntk(X) + ridge * torch.eye(8, dtype=F64), Y)
        computed = gradient_flow(NET, X, Y, NEW, ridge=ridge).mean
        torch.testing.assert_close(computed, NET.ntk(NEW, X) @ fit, rtol=1e-10, atol=1e-11)


def test_training_points_are_interpolated_with_certainty() -> None:
    computed, again = gradient_flow(NET, X, Y), gradient_flow(NET, X, Y, X)
    torch.testing.assert_close(computed.mean, Y, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(again.mean, Y, rtol=1e-10, atol=1e-11)
    assert computed.std.max() < 1e-12
    assert again.std.max() < 1e-6
    early = gradient_flow(NET, X, Y, t=1.0), gradient_flow(NET, X, Y, X, t=1.0)
    torch.testing.assert_close(early[0].covariance, early[1].covariance, rtol=1e-11, atol=1e-12)
    blurred = posterior(NET, X, Y, None, noise=0.1), posterior(NET, X, Y, X, noise=0.1)
    torch.testing.assert_close(blurred[0].covariance, blurred[1].covariance, rtol=1e-11, atol=1e-12)


def test_without_a_random_start_there_is_no_covariance() -> None:
    computed = gradient_flow(NET, X, Y, NEW, t=0.5, initial=ZeroInitial())
    assert torch.equal(computed.mean, gradient_flow(NET, X, Y, NEW, t=0.5).mean)
    assert torch.equal(computed.covariance, torch.zeros(5, 5, dtype=F64))
    assert torch.equal(computed.std, torch.zeros(5, dtype=F64))


def test_standard_deviations_come_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    new = normal(50, 2, seed=5)
    monkeypatch.setattr("numeric.infinite.prediction.BLOCK", 1)  # then of 8, as there are points
    computed = gradient_flow(NET, X, Y, new, t=[0.5, 2.0])
    variances = computed.covariance.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(computed.std, variances.sqrt(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("targets", [(1.0, 1.0), (1.0, 2.0)], ids=["equal", "contradictory"])
def test_coincident_points_are_fitted_to_their_mean_target(targets: tuple[float, float]) -> None:
    doubled, y = torch.cat([X, X[:1]]), torch.cat([Y[:, 0], Y[:1, 0]])
    y[0], y[-1] = targets
    merged = y[:-1].clone()
    merged[0] = sum(targets) / 2
    with pytest.warns(SingularGram, match=r"tangent kernel.*1 of 9 eigenvalues.*ridge = "):
        computed = gradient_flow(NET, doubled, y, NEW)
    assert computed.rank == 8
    assert computed.condition > 1e14
    once = gradient_flow(NET, X, merged, NEW)
    torch.testing.assert_close(computed.mean, once.mean, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(computed.covariance, once.covariance, rtol=1e-9, atol=1e-9)
    gradient_flow(NET, doubled, y, NEW, t=1e3)  # at a finite time nothing is lost: no warning
    gradient_flow(NET, doubled, y, NEW, ridge=1e-10)
    if targets[0] == targets[1]:
        with pytest.warns(SingularGram, match="NNGP kernel"):
            bayes = posterior(NET, doubled, y, NEW, noise=0)
        exact = posterior(NET, X, merged, NEW, noise=0)
        torch.testing.assert_close(bayes.mean, exact.mean, rtol=1e-9, atol=1e-10)
    else:
        need = r"noise = 0 no.*condition number.*1 of 9 .*float64.*take noise = (\S+) or more"
        with pytest.raises(InputError, match=need):
            posterior(NET, doubled, y, NEW, noise=0)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_sixty_close_points_are_stable(dtype: torch.dtype) -> None:
    x, y, new = LINE.to(dtype), torch.sin(3 * LINE).to(dtype), WIDE.to(dtype)
    noise = torch.finfo(dtype).eps
    with pytest.warns(SingularGram, match=str(dtype).removeprefix("torch.")):
        computed = [gradient_flow(Bell(), x, y, new), posterior(Bell(), x, y, new, noise=0.0)]
    computed += [gradient_flow(Bell(), x, y, new, t=t) for t in (0.0, 1e2)]
    computed += [posterior(Bell(), x, y, new, noise=1e4 * noise)]
    for one in computed:
        assert one.covariance.dtype == one.mean.dtype == one.std.dtype == dtype
        assert torch.equal(one.covariance, one.covariance.mT)
        assert one.covariance.diagonal().min() >= 0
        assert torch.linalg.eigvalsh(one.covariance).min() > -(len(new) ** 2) * noise
    for fit in (
        computed[0],
        computed[1],
        computed[-1],
    ):  # the truth lies within what they allow themselves
        assert ((fit.mean[:, 0] - torch.sin(3 * new[:, 0])).abs() < 3 * fit.std).all()


BAD = {
    "training points are torch.int64, .* convert": {"x_train": torch.ones(8, 2, dtype=torch.int64)},
    "training points must be an array of numbers": {"x_train": "data.csv"},
    r"training points have shape \(0, 2\), .* at least one": {"x_train": X[:0]},
    "training points have entries that are NaN": {"x_train": X / 0},
    "targets have entries that are NaN": {"y_train": Y * math.inf},
    "targets are torch.float32 on cpu, but .* torch.float64 on": {"y_train": Y.float()},
    "targets must hold numbers, but a tensor on the meta device": {"y_train": Y.to("meta")},
    r"shape \(7, 3\) .* for 8 training points.* \(8,\) or \(8, outputs\)": {"y_train": Y[:7]},
    r"shape \(8, 3, 1\)": {"y_train": Y[..., None]},
    "test points have entries that are NaN": {"x_test": NEW * math.nan},
    r"test points have shape \(0, 2\)": {"x_test": NEW[:0]},
    "test points are torch.float32": {"x_test": NEW.float()},
    "t = -1 .* at least 0": {"t": -1},
    r"t = \[1.0, nan\]": {"t": [1.0, math.nan]},
    "t must be an array of numbers of shape .*, not 'long'": {"t": "long"},
    r"t = \[\]": {"t": []},
    "ridge = -0.1 .* number at least 0": {"ridge": -0.1},
    "ridge = nan": {"ridge": math.nan},
    "noise = -1 .* at least 0": {"noise": -1},
    "noise = inf": {"noise": math.inf},
    "noise = None": {"noise": None},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_told(message: str) -> None:
    arguments = {"x_train": X, "y_train": Y, "x_test": NEW} | BAD[message]
    calls = [posterior] if "noise" in arguments else [gradient_flow]
    if not {"t", "ridge", "noise"} & arguments.keys():
        calls = [gradient_flow, lambda **kind: posterior(noise=0.1, **kind)]
    for call in calls:
        with pytest.raises(InputError, match=message):
            call(net=NET, **arguments)
