"""Learned and tangent kernels, training and experiments run on an accelerator, or on the trial device.

Numbers are those of the CPU, results are where the inputs are, and copies to the host do not grow with the
problem; `HOST`, `DRAWN` and `GROWS` name the calls that differ, and why.
"""

from __future__ import annotations

import math
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from analytic import activations as A
from analytic.splines import INITIALISATIONS
from device_checks import CPU, F64, Call, Device, check, named, network, normal
from numeric import infinite, learned, path_kernel, tangents
from numeric.experiments import decision_boundaries
from numeric.experiments.bayes import PosteriorVolume, Problem, at_infinite_width
from numeric.experiments.deep_width import KernelSweep
from numeric.experiments.knots import Gathering, clustering
from numeric.experiments.random_features import DenseInterpolant, FeatureSweep, RandomFeatures
from numeric.experiments.width import WidthSweep
from numeric.kernels import FunctionKernel
from numeric.relu_dynamics import Descent, Flow, MeanField, Neurons, sliding, variation
from numeric.runs import train
from numeric.splines import SplineInterpolant, SplineKernel

# Learned kernels and splines: points grow, and the iterations of the feature machine.


def machine(device: Device, n: int) -> Any:
    x, y = normal(device, 8, 3), normal(device, 8, 2, seed=1)
    base = learned.Gaussian(2.0)
    fitted = learned.FeatureMachine(base, iterations=n, device=named(device)).fit(x, y)
    new = normal(device, 5, 3, seed=2)
    return fitted.kernel_.matrix, fitted.predict(new), fitted.gradient(new)


def classifier(device: Device, n: int) -> Any:
    x, new = normal(device, 9, 2), normal(device, 5 * n, 2, seed=2)
    fitted = learned.AmariWuClassifier(device=named(device)).fit(x, (x[:, 0] > 0).long())
    magnified = fitted.kernels_[-1]
    return fitted.predict(new), fitted.decision_function(new), magnified.volume(new)


def self_supervised(device: Device, n: int) -> Any:
    x, new = normal(device, 8, 2), normal(device, 5 * n, 2, seed=2)
    fitted = learned.SelfSupervisedKernel(device=named(device)).fit(x, x + x.sin() / 9)
    return fitted.spectrum_, fitted(new), fitted.metric(new), fitted.volume(new)


def mahalanobis(base: Any, device: Device, n: int) -> Any:
    M, x, y = (normal(device, m, 2, seed=m) for m in (2, 4 * n, 5))
    seen = learned.Mahalanobis(base, M @ M.T)
    return seen(x, y), seen.gradient(x, y, y), seen.metric(x), seen.volume(x)


def spline(device: Device, n: int) -> Any:
    x, y, new = (normal(device, m, seed=m) for m in (9, 9, 4 * n))
    fitted = SplineInterpolant(INITIALISATIONS["uniform"], {"A": 1.0, "B": 1.0}).fit(x, y)
    return fitted.norm, fitted.predict(new).tolist()


def spline_kernel(device: Device, n: int) -> Any:
    kernel = SplineKernel(INITIALISATIONS["uniform"], {"A": 1.0, "B": 1.0}, readout=0.5)
    x, y = normal(device, 4 * n, 1), normal(device, 3, 1, seed=1)
    return kernel(x, y), kernel.diagonal(x)


def tangent(device: Device, n: int) -> Any:
    """A convolution, an embedding, norms and a parameter without a rule; x and y grow."""
    net = Tokens().to(device)
    x, y = (normal(device, m * n, 4, seed=m).abs() for m in (3, 2))
    with pytest.warns(tangents.WithoutRule):
        grams = tangents.ntk(net, x, y), tangents.ntk(net, x, trace=True)
    found = tangents.gradients(net, x, modules=("line", "read"))
    directions = {name: value[0] for name, value in found.dense().items()}
    return grams, found.along(directions), found.sum(), found.squares()


def empirical(device: Device, n: int) -> Any:
    kernel = tangents.EmpiricalNTK(network(device, 2, 5, 3))
    x, y = normal(device, 3 * n, 2), normal(device, 2, 2, seed=1)
    return kernel(x, y), kernel.diagonal(x), kernel.metric(x)


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.line = nn.Embedding(9, 3, **F64), nn.Conv1d(3, 2, 2, **F64)
        self.norm, self.read = nn.LayerNorm(3, **F64), nn.Linear(3, 2, **F64)
        self.scale = nn.Parameter(normal(CPU, 2))
        for k, value in enumerate(self.parameters()):
            value.data = normal(CPU, *value.shape, seed=k)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.table(x.long()))
        return self.read(self.line(h.mT).tanh().sum(1)) * self.scale


LEARNED: dict[str, Call] = {
    "tangents": tangent,
    "FeatureMachine": machine, "AmariWuClassifier": classifier,
    "SelfSupervisedKernel": self_supervised, "SplineInterpolant": spline,
    "SplineKernel": spline_kernel, "EmpiricalNTK": empirical,
    "Mahalanobis, distance": partial(mahalanobis, learned.SmoothedLaplace(2.0, 0.5)),
    "Mahalanobis, product": partial(mahalanobis, learned.Polynomial(2)),
    "Mahalanobis, function": partial(mahalanobis, FunctionKernel(lambda x, y: (x @ y.T / 9).exp())),
}  # fmt: skip


# Training: steps grow; in flows the neurons do, since steps follow the numbers.


def samples(device: Device) -> tuple[Tensor, Tensor]:
    x, y = torch.tensor([[-0.9, 0.1, 0.8], [1.0, -1.0, 0.5]], device=device, **F64)
    return x, y


def neurons(device: Device, n: int = 1) -> Neurons:
    return Neurons.drawn(4 * n, 0, antisymmetric=True, device=named(device))


def flow(delta: float | None, device: Device, n: int) -> Any:
    run = Flow(*samples(device), neurons(device, n), delta, time=0.02, tolerance=1.0)
    end = (path := run.run(progress=False)).final
    return path.losses, path.residuals, end.a, end.b, end.c


def sliding_flow(device: Device, n: int) -> Any:
    """Its solution is on the host; time grows, and with it the number of events."""
    part, (x, y) = neurons(device, 2), samples(device)
    solution = sliding.integrate(part.a, part.b, part.c, 1.0, x, y, 0.01 * n, progress=False)
    return solution.path[-1], *solution.at(0.005)


def cylinder(device: Device, n: int) -> Any:
    field, measure, (r, theta) = (
        MeanField(*samples(device), 0.1),
        neurons(device, n),
        samples(device),
    )
    path = field.flow(measure, 0.02, tolerance=1.0, progress=False)
    parts = field.objective(measure), field.potential(measure, r, theta)
    return *parts, field.velocity(measure, r, theta), path.losses


def descent(device: Device, n: int) -> Any:
    path = Descent(*samples(device), neurons(device), 0.05, 4 * n, frames=2).run(progress=False)
    return path.losses, path.final.a


def recalled(device: Device, n: int) -> Any:
    """Runs that go on from a file."""
    step, flowing = (
        Descent(*samples(device), neurons(device, n), 0.05, 2),
        Flow(*samples(device), neurons(device, n), time=0.02, tolerance=1.0),
    )
    with tempfile.TemporaryDirectory() as folder:
        one, two = Path(folder) / "descent.pt", Path(folder) / "flow.pt"
        for _ in range(2):
            paths = step.run(progress=False, store=one), flowing.run(progress=False, store=two)
    return [(path.residuals, path.final.c) for path in paths]


def clusters(device: Device, n: int) -> Any:
    x, before, after = samples(device)[0], neurons(device, 9 * n), neurons(device, 8 * n)
    result = clustering(x, before, after, draws=19 * n)
    return result.before.value, result.gain.expected, vars(variation(before))


def gathered(device: Device, n: int) -> Tensor:
    kind = {"m": 4 * n, "networks": 2, "milestones": 2, "device": named(device)}
    return Gathering(*samples(device), -math.inf, **kind).run(progress=False).draws


def trained(device: Device, n: int, optimizer: Any = torch.optim.SGD, **more: Any) -> Any:
    data = normal(CPU, 7, 2), (normal(CPU, 7, seed=1) > 0).long()
    kind = {"steps": 2 * n, "batch_size": 3, "device": named(device), "progress": False} | more
    optimizer = partial(optimizer, lr=0.1)
    run = train(network(CPU, 2, 4, 2), F.cross_entropy, data, optimizer, **kind)
    assert all(part.device.type == device.type for part in run.model.parameters())
    return run.losses, [part.detach().cpu() for part in run.model.parameters()]


def resumed(device: Device, n: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        kind = {"store": Path(folder) / "run.pt", "optimizer": torch.optim.Adam}
        trained(device, 1, **kind)
        return trained(device, 1 + n, **kind)


def recorded(make: Any, device: Device, n: int) -> Any:
    data = normal(CPU, 7, 2), (normal(CPU, 7, seed=1) > 0).long()
    kind = {"steps": 2, "batch_size": 3, "device": named(device), "progress": False}
    return path_kernel.record(network(CPU, 2, 4, 2), F.cross_entropy, make, data, **kind)


def recorded_steps(make: Any, device: Device, n: int) -> Any:
    """Weights are for the file; what is read is where the model is."""
    run = recorded(make, device, n)
    again = path_kernel.retrain(run, torch.ones(7), progress=False)
    after = [part.detach() for part in again.parameters()]
    return run.parameters(2), run.weights(0), run.batch(1), after


def influences(device: Device, n: int) -> Any:
    """Steps are as many; the points whose outputs are followed grow."""
    run = recorded(partial(torch.optim.AdamW, lr=0.1), device, n)
    return path_kernel.influence(run, normal(device, 3 * n, 2, seed=2), progress=False)


def attributed(make: Any, device: Device, n: int, **kind: Any) -> Any:
    """Copies to the host are of sizes and of where refinement stops, which points do not add to."""
    kernel = path_kernel.ExactPathKernel(recorded(make, device, n), progress=False, **kind)
    x = normal(device, 3, 2, seed=2).repeat(n, 1)
    top = kernel.top(x, 2)
    return (
        kernel.attributions(x),
        kernel.decay(x),
        kernel.predict(x),
        kernel.residual(x),
        top.attribution,
    )


def path_gram(device: Device, n: int) -> Any:
    run = recorded(partial(torch.optim.SGD, lr=0.5), device, n)
    kernel = path_kernel.ExactPathKernel(run, progress=False)
    x = normal(device, 2, 2, seed=2).repeat(n, 1)
    return kernel.gram(x), kernel.gram(x, run.x), kernel.during(0).coefficients(0)


def path_uses(device: Device, n: int) -> Any:
    run = recorded(partial(torch.optim.SGD, lr=0.5), device, n)
    kernel = path_kernel.ExactPathKernel(run, progress=False)
    x = normal(device, 2, 2, seed=2).repeat(n, 1)
    found = path_kernel.posterior(kernel, x, jitter=0.1)
    line = path_kernel.interpolation(run, (x, run.y[:2].repeat(n)), count=3)
    machine = path_kernel.support_vectors(kernel)
    return (
        (machine.decide(x), machine.predict(x), machine.coefficients),
        (path_kernel.TwoCopyKernel(kernel)(torch.cat([x, x[:, :1] * 0], 1)),),
        (found.mean, found.std, found.softmax(5, seed=0).spread),
        (line.slopes, line.loss, line.norm, line.accuracy(run.y[:2].repeat(n))),
        path_kernel.tangent_defects(run, x),
        path_kernel.influence_function(run, x, damping=10.0),
        path_kernel.mislabelled(kernel).others,
    )


DYNAMICS: dict[str, Call] = {
    **{f"Flow, {delta}": partial(flow, delta) for delta in (-math.inf, None, math.inf)},
    "sliding.integrate": sliding_flow, "MeanField": cylinder, "Descent": descent,
    "runs from files": recalled, "clustering, variation": clusters,
    "Gathering": gathered, "train": trained, "train, resumed": resumed,
    "record": partial(recorded_steps, partial(path_kernel.BackwardEuler, lr=0.1)), "influence": influences,
    "ExactPathKernel": partial(attributed, partial(torch.optim.SGD, lr=0.5, weight_decay=0.1)),
    "ExactPathKernel, AdamW": partial(attributed, partial(torch.optim.AdamW, lr=0.1)),
    "ExactPathKernel.gram": path_gram, "uses of path kernels": path_uses,
    "SGDW, LeftRiemann": partial(
        attributed, partial(path_kernel.SGDW, lr=0.5, decay=0.1), quadrature=path_kernel.LeftRiemann(3)
    ),
    "Leapfrog, GaussLegendre": partial(
        attributed, partial(path_kernel.Leapfrog, lr=0.1), quadrature=path_kernel.GaussLegendre(1e-9)
    ),
}  # fmt: skip


# Experiments: draws grow, below the size of a block.


def widths(device: Device, n: int) -> Any:
    kind = {"widths": (9,), "realisations": 2 * n, "radii": (0.5, 1.0), "device": named(device)}
    result = WidthSweep(A.monomial(1), **kind).run(progress=False)
    return result.magnification.at, result.ricci.at, result.ricci.exact


def kernels(device: Device, n: int) -> Any:
    net = infinite.FullyConnected(A.relu, 1, 1.4, 0.2)
    sweep = KernelSweep(net, normal(device, 3, 2), (8,), 5 * n, device=named(device))
    result = sweep.run(progress=False)
    return result.nngp.at, result.ntk.at, result.ntk.exact


def features(device: Device, n: int) -> Any:
    law, (x, y) = INITIALISATIONS["uniform"], samples(device)
    units = RandomFeatures(law, {"A": 1.0, "B": 1.0}, 32, device=named(device))
    fitted, run = units.fit(x, y), units.train(x, y, 2 * n, progress=False)
    return units.kernel(x), fitted.predict(x), fitted.norm, run.predict(x), run.losses


def interpolant(device: Device, n: int) -> Any:
    """It is solved on the host, whatever its points are on."""
    law, (x, y) = INITIALISATIONS["uniform"], samples(device)
    exact = DenseInterpolant(law, {"A": 1.0, "B": 1.0}, x, y)
    return exact.norm, exact.predict(samples(device)[0].repeat(n))


def feature_sweep(device: Device, n: int) -> Any:
    law, values = INITIALISATIONS["uniform"], {"A": 1.0, "B": 1.0}
    data = [part.tolist() for part in samples(CPU)]
    kind = {"widths": (16 * n,), "draws": 2, "points": (0.1, 0.5), "device": named(device)}
    result = FeatureSweep(law, values, *data, **kind).run(progress=False)
    return result.worst, result.square, result.constant


def posterior_volume(device: Device, n: int) -> Any:
    problem = Problem.one_example(A.monomial(2), 2, 0.3, 2.0)
    result = PosteriorVolume(problem, 30, 200 * n, device=named(device)).run(progress=False)
    wide = PosteriorVolume(problem, 60, 200, device=named(device), seed=1).run(progress=False)
    limit = at_infinite_width(result, wide)
    return result.coefficients, problem.sampled(50 * n, device=named(device)), limit


def hypothesis(device: Device, n: int) -> Any:
    task = decision_boundaries.xor()
    kind = {"networks": 2, "recipe": task.recipe.with_larger_steps(1000), "device": named(device)}
    result = decision_boundaries.Hypothesis(task, (3,), circles=6 * n, **kind).run(progress=False)[
        (3,)
    ]
    compared = result.comparisons()
    return result.log_volume, result.accuracy, result.away, [one.mean for one in compared.values()]


def geometry_map(device: Device, n: int) -> Any:
    lattice = decision_boundaries.Lattice(1.5, 3 * n, device=device)
    result = decision_boundaries.geometry_map(decision_boundaries.perceptron(4).to(device), lattice)
    return result.log_volume, result.ricci, result.margin, result.boundary


def beside_a_boundary(device: Device, n: int) -> Any:
    x, net = normal(device, 7 * n, 2), network(device, 2, 5, 2)
    return decision_boundaries.margin(net)(x), decision_boundaries.distance(x, x[:3] + 0.1)


def maps_of_run(device: Device, n: int) -> Any:
    data = normal(CPU, 7, 2), (normal(CPU, 7, seed=1) > 0).long()
    kind = {"steps": 2, "device": named(device), "progress": False}
    net = decision_boundaries.perceptron(4)
    run = train(net, F.cross_entropy, data, partial(torch.optim.SGD, lr=0.1), **kind)
    lattice = decision_boundaries.Lattice(1.5, 3 * n, device=device)
    maps = decision_boundaries.geometry_maps(run, lattice, progress=False)
    return {step: one.log_volume for step, one in maps.items()}


EXPERIMENTS: dict[str, Call] = {
    "WidthSweep": widths, "KernelSweep": kernels, "RandomFeatures": features,
    "FeatureSweep": feature_sweep, "PosteriorVolume": posterior_volume, "Hypothesis": hypothesis,
    "decision_boundaries.geometry_map": geometry_map, "geometry_maps": maps_of_run,
    "decision_boundaries.margin": beside_a_boundary,
    "DenseInterpolant": interpolant,
}  # fmt: skip


CALLS = LEARNED | DYNAMICS | EXPERIMENTS
# Results that are tables for the host: losses, estimates over draws.
HOST = {
    "Gathering",
    "train",
    "train, resumed",
    "KernelSweep",
    "FeatureSweep",
    "PosteriorVolume",
    "DenseInterpolant",
    "sliding.integrate",
}
# What the device itself draws: another accelerator has another stream.
DRAWN = {"WidthSweep", "KernelSweep", "PosteriorVolume"}
GROWS = {
    "train": 2, "train, resumed": 2,  # the loss of every step, so that none diverges unseen
    "FeatureMachine": 9,  # checks of M and of the Gram matrix in every iteration, which costs O(n^3)
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls_run_where_their_inputs_are(name: str, device: Device) -> None:
    check(CALLS[name], device, host=name in HOST, drawn=name in DRAWN, more=GROWS.get(name, 0))
