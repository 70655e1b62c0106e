"""Uses of the exact path kernel: posteriors, support vectors, wrong labels, and what stands beside it."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.svm import SVC
from torch import Tensor, nn
from torch.func import functional_call, jvp

from numeric.inputs import InputError
from numeric.kernels import PointwiseGaussian, conditional
from numeric.path_kernel import (
    Copy,
    ExactPathKernel,
    LeftRiemann,
    Record,
    influence,
    influence_function,
    interpolation,
    mislabelled,
    posterior,
    record,
    support_vectors,
    tangent_defects,
)
from numeric.path_kernel.posterior import own_blocks
from refusals import require_refusals

F64 = {"dtype": torch.float64}
EPS = torch.finfo(torch.float64).eps
QUIET = {"device": "cpu", "progress": False}


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), **F64)


X, NEW = normal(12, 2), normal(3, 2, seed=1)
Y = (X[:, 0] > 0).long() + (X[:, 1] > 0.5).long()


def perceptron(act: type[nn.Module] = nn.ReLU, outputs: int = 3) -> nn.Module:
    net = nn.Sequential(nn.Linear(2, 5), act(), nn.Linear(5, outputs)).double()
    for place, p in enumerate(net.parameters()):
        p.data = normal(*p.shape, seed=10 + place)
    return net


def run_of(
    net: nn.Module, loss: Any = F.cross_entropy, y: Tensor = Y, rate: float = 0.2, steps: int = 6
) -> Record:
    return record(net, loss, partial(torch.optim.SGD, lr=rate), (X, y), steps=steps, **QUIET)


@pytest.fixture(scope="module")
def relu() -> ExactPathKernel:
    return ExactPathKernel(run_of(perceptron()), progress=False)


def linear(steps: int) -> Record:
    """A linear model in a minimum of its loss, with a target that it cannot fit."""
    net = nn.Linear(2, 1).double()
    for place, p in enumerate(net.parameters()):
        p.data = normal(*p.shape, seed=20 + place)
    return run_of(net, nn.MSELoss(), X[:, :1] ** 2, rate=0.2, steps=steps)


def test_the_posterior_of_a_linear_model_is_bayesian_regression() -> None:
    """Its kernel is N eps (x.y + 1) on either copy; the prior mean is the untrained model."""
    run, variance = linear(steps=5), 0.3
    path = ExactPathKernel(run, progress=False)
    unit = 5 * 0.2 * (X.square().sum(1) + 1).mean()  # jitter is in units of the mean diagonal
    found = posterior(path, NEW, run.y, jitter=float(variance / unit))
    features, there = (torch.cat([x, torch.ones(len(x), 1, **F64)], 1) for x in (X, NEW))
    precision = features.T @ features / variance + torch.eye(
        3, **F64
    )  # weights of variance N eps = 1
    weights = torch.linalg.solve(precision, features.T @ (run.y - path.start(X)) / variance)
    assert torch.allclose(found.mean, path.start(NEW) + there @ weights, rtol=1e-11)
    variances = (there @ torch.linalg.inv(precision) * there).sum(1)
    assert torch.allclose(found.covariance.flatten(), variances, rtol=1e-9)


def test_a_singular_gram_matrix_needs_the_jitter_that_its_refusal_names(
    relu: ExactPathKernel,
) -> None:
    twice = record(perceptron(), F.cross_entropy, partial(torch.optim.SGD, lr=0.2),
                   (X[[*range(12), 0]], Y[[*range(12), 0]]), steps=6, **QUIET)  # fmt: skip
    path = ExactPathKernel(twice, progress=False)
    with pytest.raises(InputError, match=r"jitter = 0 the Gram matrix .* singular") as refusal:
        posterior(path, NEW)
    remedy = float(str(refusal.value).rsplit("jitter = ", 1)[1].split()[0])
    assert torch.isfinite(posterior(path, NEW, jitter=remedy).mean).all()


@pytest.mark.parametrize("act", [nn.Tanh, nn.ReLU])
def test_own_blocks_are_the_diagonal_of_the_gram_matrix(act: type[nn.Module]) -> None:
    """Nodes of one point there, common nodes of three points here: both integrate J J^T of a smooth piece."""
    path = ExactPathKernel(run_of(perceptron(act)), progress=False)
    whole = path.gram(Copy(NEW, 0)).diagonal(dim1=0, dim2=1).permute(2, 0, 1)
    assert torch.allclose(own_blocks(path, NEW), whole, rtol=1e-9)


def test_posterior_variances_are_positive_and_smaller_than_prior_ones(
    relu: ExactPathKernel,
) -> None:
    found = posterior(relu, X, jitter=1e-8)
    least = torch.linalg.eigvalsh(found.covariance)[:, 0]
    prior = own_blocks(relu, X)
    assert (least > -1e-9 * prior.diagonal(dim1=1, dim2=2).amax(1)).all()
    assert (torch.linalg.eigvalsh(prior - found.covariance)[:, 0] > -1e-9).all()


def test_softmax_by_monte_carlo() -> None:
    """The logistic of a centred normal has mean 1/2; without variance there is no spread."""
    sure = PointwiseGaussian(torch.tensor([[1.0, 2.0]]), torch.zeros(1, 2, 2)).softmax(10, seed=0)
    assert sure.spread.abs().max() < 1e-6
    assert torch.allclose(sure.mean, torch.tensor([[1.0, 2.0]]).softmax(1))
    root = normal(2, 2)
    drawn = PointwiseGaussian(torch.zeros(1, 2, **F64), (root @ root.T)[None])
    assert drawn.softmax(4_000, seed=0).sigmas_from(0.5).max() < 5
    covariance = torch.cov(drawn.sample(4_000, seed=1)[:, 0].T)
    assert torch.allclose(
        covariance, drawn.covariance[0], atol=5 * 4_000**-0.5 * float(root.norm() ** 2)
    )


def test_support_vectors_decide_as_scikit_learn_does(relu: ExactPathKernel) -> None:
    machine = support_vectors(relu, C=3.0)
    gram = relu.gram(Copy(X, 1)).diagonal(dim1=2, dim2=3).mean(2).numpy()
    cross = relu.gram(NEW, X).diagonal(dim1=2, dim2=3).mean(2).numpy()
    unit = gram.diagonal().mean()
    for c in range(3):
        own = SVC(C=3.0, kernel="precomputed").fit(gram / unit, Y.numpy() == c)
        expected = own.decision_function(cross / unit)
        np.testing.assert_allclose(machine.decide(NEW)[:, c], expected, rtol=1e-9, atol=1e-9)
    assert machine.predict(NEW).tolist() == machine.decide(NEW).argmax(1).tolist()


def test_what_a_point_made_of_itself_is_its_own_attribution(relu: ExactPathKernel) -> None:
    suspects = mislabelled(relu, batch_size=5)
    added = relu.attributions(X)
    label = F.one_hot(Y, 3).bool()
    own = added[torch.arange(12), :, torch.arange(12)]
    assert torch.allclose(suspects.own, own[label], rtol=1e-9, atol=1e-14)
    rest = relu.start(X) + added.sum(2) - own  # the start and all other points
    margin = rest[label] - rest.masked_fill(label, -torch.inf).amax(1)
    assert torch.allclose(suspects.others, margin, atol=1e-11)
    assert suspects.others[suspects.order].diff().min() >= 0


def test_a_wrong_label_among_right_ones_is_found_first() -> None:
    x = torch.cat([normal(20, 2) - 3, normal(20, 2, seed=1) + 3])
    y = torch.arange(40) // 20
    y[7] = 1
    sgd = partial(torch.optim.SGD, lr=0.1)
    run = record(perceptron(nn.Tanh, 2), F.cross_entropy, sgd, (x, y), steps=15, **QUIET)
    assert int(mislabelled(ExactPathKernel(run, progress=False)).order[0]) == 7


def test_influence_functions_are_exact_in_a_minimum() -> None:
    """Each of 150 steps contracts by 1 - 0.2 times an eigenvalue of the Hessian, the least being 0.85."""
    run = linear(150)
    followed = influence(run, NEW, progress=False)
    damped = influence_function(run, NEW, damping=1e-10)
    assert torch.allclose(damped, followed, rtol=1e-7, atol=1e-12)
    half = influence_function(run, NEW, torch.full((3, 1, 1), 0.5, **F64), damping=1e-10)
    assert torch.allclose(half, damped / 2)


def test_interpolation_is_the_model_on_the_line(relu: ExactPathKernel) -> None:
    line = interpolation(relu.run, (NEW, Y[:3]), count=3)
    assert torch.allclose(line.outputs[0], relu.start(NEW), rtol=1e-14)
    assert torch.allclose(line.outputs[2], relu.network(NEW), rtol=1e-14)
    first, last = relu.run.parameters(0), relu.run.parameters(6)
    middle = {name: (first[name] + last[name]) / 2 for name in first}
    step = {name: (last[name] - first[name]) / line.distance for name in first}
    outputs, slopes = jvp(lambda w: functional_call(relu.run.model, w, (NEW,)), (middle,), (step,))
    assert torch.allclose(line.outputs[1], outputs, rtol=1e-12)
    assert torch.allclose(line.slopes[1], slopes, rtol=1e-12)
    assert torch.allclose(line.loss[1], F.cross_entropy(outputs, Y[:3]), rtol=1e-12)
    norm = sum(value.square().sum() for value in middle.values()) ** 0.5
    assert torch.allclose(line.norm[1], norm, rtol=1e-12)
    assert line.accuracy(line.outputs[0].argmax(1))[0] == 1


def test_gradients_at_fixed_weights_meet_the_discrete_path_kernel_step_by_step(
    relu: ExactPathKernel,
) -> None:
    discrete = ExactPathKernel(relu.run, LeftRiemann(1), progress=False).defects(NEW)
    for step in (0, 3, 5):
        assert torch.allclose(
            tangent_defects(relu.run, NEW, step)[step], discrete[step], atol=1e-13
        )
    small = tangent_defects(relu.run, NEW, 2, memory=1)  # one step at a time
    assert torch.allclose(small, tangent_defects(relu.run, NEW, 2), atol=1e-13)
    assert small.abs().max() > 1e-3


def test_wrong_calls(relu: ExactPathKernel) -> None:
    squares = ExactPathKernel(linear(steps=2), progress=False)
    one_class = ExactPathKernel(run_of(perceptron(), y=torch.zeros(12).long()), progress=False)
    eye = torch.eye(2, **F64)
    calls = {
        "targets of another shape": lambda: posterior(relu, NEW, normal(4, 3), jitter=1e-6),
        "a record for a kernel": lambda: posterior(relu.run, NEW),
        "a singular Gram matrix": lambda: conditional(0 * eye, eye[0], eye[None], eye[None]),
        "a negative jitter": lambda: conditional(eye, eye[0], eye[None], eye[None], jitter=-1.0),
        "no draws": lambda: PointwiseGaussian(eye, eye.expand(2, 2, 2)).sample(0, seed=0),
        "numbers for classes": lambda: support_vectors(squares),
        "a single class": lambda: support_vectors(one_class),
        "C = 0": lambda: support_vectors(relu, C=0.0),
        "labels that are numbers": lambda: mislabelled(squares),
        "too little damping": lambda: influence_function(relu.run, NEW, damping=1e-12),
        "too little memory": lambda: influence_function(relu.run, NEW, damping=1.0, memory=10),
        "one value of t": lambda: interpolation(relu.run, count=1),
        "weights that did not move": lambda: interpolation(run_of(perceptron(), rate=0.0)),
        "labels of fewer points": lambda: interpolation(relu.run).accuracy(Y[:3]),
        "a state beyond the last": lambda: tangent_defects(relu.run, NEW, 7),
    }
    require_refusals(calls.items())
