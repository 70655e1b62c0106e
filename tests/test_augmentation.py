"""Networks trained on augmented data are equivariant networks at every time, exactly and in ensembles."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from analytic.activations import erf, relu
from numeric.estimate import Estimate
from numeric.experiments.ensembles import Ensemble
from numeric.infinite import (
    Convolution,
    Dense,
    Flatten,
    GlobalPool,
    GroupConvolution,
    GroupPool,
    Lift,
    Network,
    Window,
    gradient_flow,
    log_marginal_likelihood,
    posterior,
)
from numeric.infinite.groups import Action, cyclic, orbit, p4, symmetric, torus
from numeric.inputs import InputError

Z6, S3, TURNS = Action(cyclic(6)), Action(symmetric(3)), torus(3, cyclic(4))
TIMES = [0.03, 0.3, 3.0, 30.0, math.inf]


def signals(n: int, *shape: int, seed: int = 0) -> Tensor:
    return torch.randn(
        n, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def pair(group: Action, act: object = relu) -> tuple[Network, Network]:
    """A network that knows nothing of the group, and the one whose layers do."""
    plain = [Flatten(), Dense(), act, Dense(), act, Dense()]
    grouped = [Lift(group), act, GroupConvolution(), act, GroupConvolution(), GroupPool()]
    return Network(plain, 1.3, 0.2), Network(grouped, 1.3, 0.2)


def pixels() -> tuple[Network, Network]:
    window = Window(3)
    plain = [Convolution(3), relu, Convolution(3), GlobalPool()]
    grouped = [Lift(p4, window), relu, GroupConvolution(window), GroupPool()]
    return Network(plain, 1.3, 0.2), Network(grouped, 1.3, 0.2)


CASES = {
    "Z6": (Z6, pair(Z6), (2, 6)),
    "S3, not abelian": (S3, pair(S3, erf), (2, 6)),
    "C4 |x Z3^2": (TURNS, pair(TURNS), (1, 9)),
    "p4": (p4, pixels(), (1, 4, 4)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_mean_of_the_augmented_ensemble_is_that_of_the_equivariant_one_at_all_times(
    name: str,
) -> None:
    """Of the loss averaged over orbits, far from the data too; summed, time runs |G| times as fast."""
    group, (plain, grouped), shape = CASES[name]
    x, y = signals(4, *shape), signals(4, 2, seed=1)
    new = torch.cat([signals(3, *shape, seed=2), 10 * signals(2, *shape, seed=3)])
    size = group.order
    augmented, repeated = orbit(group, x), y.repeat(size, 1)
    equivariant = gradient_flow(grouped, x, y, new, TIMES)
    averaged = gradient_flow(plain, augmented, repeated, new, [t / size for t in TIMES])
    bound = {"rtol": 0, "atol": 1e-11 * equivariant.mean.abs().max().item()}  # condition below 1e4
    torch.testing.assert_close(averaged.mean, equivariant.mean, **bound)
    summed = gradient_flow(plain, augmented, repeated, new, TIMES)
    later = gradient_flow(grouped, x, y, new, [t * size for t in TIMES])
    torch.testing.assert_close(summed.mean, later.mean, **bound)
    assert (summed.mean[1] - equivariant.mean[1]).abs().max() > 0.01  # the statement as printed
    alone = gradient_flow(plain, x, y, new, TIMES)
    assert (alone.mean[-1] - equivariant.mean[-1]).abs().max() > 0.01  # without augmentation


@pytest.fixture(scope="module")
def trained() -> tuple[Tensor, Tensor, Tensor]:
    """Outputs of both ensembles at four points, two of them far away, (members, 4), and the exact mean."""
    plain, grouped = pair(Z6)
    x, y, t = signals(3, 1, 6), 4 * signals(3, 1, seed=1), 0.5  # larger than networks at the start
    new = torch.cat([signals(2, 1, 6, seed=2), 5 * signals(2, 1, 6, seed=3)])
    limit = gradient_flow(grouped, x, y, new, t).mean[:, 0]
    kind = {"shape": (1, 6), "width": 64, "members": 100}
    one = Ensemble.draw(plain, **kind, seed=1000).trained(
        orbit(Z6, x), y.repeat(6, 1), t, 1 / 6, steps=12
    )
    other = Ensemble.draw(grouped, **kind).trained(x, y, t, steps=12)
    return one(new)[..., 0], other(new)[..., 0], limit


def test_finite_ensembles_agree_with_each_other_and_with_the_kernels(trained: tuple) -> None:
    one, other, limit = trained
    for outputs in (one, other):
        assert Estimate.of(outputs).sigmas_from(limit).max() < 4
        assert Estimate.of(outputs).sigmas_from(0 * limit).max() > 4
    a, b = Estimate.of(one), Estimate.of(other)
    assert ((a.mean - b.mean).abs() < 4 * (a.stderr**2 + b.stderr**2).sqrt()).all()


def test_only_the_mean_of_augmented_networks_is_invariant() -> None:
    plain, grouped = pair(Z6)
    x, y, new = signals(3, 1, 6), signals(3, 1, seed=1), signals(2, 1, 6, seed=2)
    moved = orbit(Z6, new)
    kind = {"shape": (1, 6), "width": 16, "members": 2}
    one = Ensemble.draw(plain, **kind).trained(orbit(Z6, x), y.repeat(6, 1), 0.5, 1 / 6, 5)
    other = Ensemble.draw(grouped, **kind).trained(x, y, 0.5, steps=5)
    spread = [ensemble(moved).unflatten(1, (6, 2)).std(1).max() for ensemble in (one, other)]
    assert spread[0] > 0.01 > 1e-12 > spread[1]


def test_training_is_the_gradient_flow_of_the_network_itself() -> None:
    """One dense layer is linear in its parameters, with f_t = y + e^{-wtT}(f_0 - y) at the data."""
    net = Network([Dense()], 1.0, 0.5)
    x, y, t, weight = signals(3, 4), signals(3, 2, seed=1), 2.0, 0.4
    start = Ensemble.draw(net, 8, 3, shape=(4,), outputs=2)
    decay = torch.linalg.matrix_exp(-weight * t * net.ntk(x))
    expected = y + decay @ (start(x) - y)
    errors = [(start.trained(x, y, t, weight, n)(x) - expected).abs().max() for n in (10, 20, 40)]
    ratios = [errors[0] / errors[1], errors[1] / errors[2]]
    assert all(12 < ratio < 22 for ratio in ratios), ratios  # 16 for the fourth order
    assert torch.equal(start.trained(x, y, 0.0)(x), start(x))


def test_posterior_and_evidence_take_signals() -> None:
    """Against the density and the conditional mean of the joint Gaussian."""
    net = CASES["p4"][1][1]
    x, y, new = signals(4, 1, 4, 4), signals(4, seed=1), signals(2, 1, 4, 4, seed=2)
    covariance = net.nngp(x) + 0.1 * torch.eye(4, dtype=torch.float64)
    density = torch.distributions.MultivariateNormal(torch.zeros_like(y), covariance).log_prob(y)
    evidence = log_marginal_likelihood(net, x, y, noise=0.1)
    assert evidence.value == pytest.approx(density.item(), rel=1e-12)
    with pytest.raises(InputError, match="FullyConnected"):
        _ = evidence.gradient
    found, cross = posterior(net, x, y, new, noise=0.1), net.nngp(new, x)
    solved = torch.linalg.solve(covariance, torch.cat([y[:, None], cross.T], 1))
    torch.testing.assert_close(found.mean, cross @ solved[:, 0], rtol=1e-10, atol=1e-12)
    rest = net.nngp(new) - cross @ solved[:, 1:]
    torch.testing.assert_close(found.covariance, rest, rtol=1e-9, atol=1e-12)


NET = Network([Dense()])
SMALL = Ensemble.draw(NET, 4, 2, shape=(3,))


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (lambda: orbit(p4, signals(2, 1, 3, 4)), "square"),
        (lambda: orbit("p4", signals(2, 1, 3, 3)), "must act on signals"),
        (lambda: Ensemble.draw(NET, 4, 1, shape=(3,)), "members"),
        (lambda: Ensemble.draw(NET, 4, 2, shape=(3,), seed=-1), "seed"),
        (lambda: Ensemble.draw("net", 4, 2, shape=(3,)), "net must be of class Network"),
        (lambda: SMALL.trained(signals(2, 3), signals(3, 1), 1.0), r"shape \(2, outputs\)"),
        (lambda: SMALL.trained(signals(2, 3), signals(2), 1.0), r"shape \(2, outputs\)"),
        (lambda: SMALL.trained(signals(2, 3), signals(2, 1), -1.0), "t = "),
        (lambda: SMALL.trained(signals(2, 3), signals(2, 1), 1.0, 0.0), "weight"),
        (lambda: SMALL.trained(signals(2, 3), signals(2, 1), 1e9, steps=30), "raise steps"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(bad: Callable, match: str) -> None:
    with pytest.raises(InputError, match=match):
        bad()
