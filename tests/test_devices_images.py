"""Estimators, views and networks that learn from them run on an accelerator, or on the trial device.

Numbers are those of the CPU, results are where the inputs are, and copies to the host do not grow with the
problem; `HOST` and `GROWS` name the calls that differ, and why.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from analytic import activations as A
from device_checks import CPU, F64, Call, Device, check, named, network, normal
from numeric import geometry, infinite, learned
from numeric.experiments import class_changes, images
from numeric.experiments.ensembles import Ensemble
from numeric.kernels import (
    Combined,
    FunctionKernel,
    Scaled,
    Tiled,
    assert_kernel,
    conditional,
)
from numeric.learned import augmentations
from numeric.models import Model, cifar_resnet, evaluation_mode, hidden_layer
from numeric.runs import train

# Estimators: points grow.


def regressor(device: Device, n: int) -> Any:
    x, y, new = (normal(device, m, 2, seed=k) for k, m in enumerate((8, 8, 4 * n)))
    kind = {"noise": 0.1, "device": named(device)}
    fitted = learned.KernelRegressor(infinite.FullyConnected(A.relu).ntk, **kind).fit(x, y)
    return fitted.predict(new, return_std=True)


def classifier(device: Device, n: int) -> Any:
    x, new = normal(device, 9, 2), normal(device, 4 * n, 2, seed=1)
    fitted = learned.KernelClassifier(device=named(device)).fit(x, (x[:, 0] > 0).long())
    return fitted.predict(new), fitted.decision_function(new)


def gaussian(device: Device, n: int) -> Any:
    x, r, cross = normal(device, 4, 6), normal(device, 4, seed=1), normal(device, 3 * n, 2, 4)
    own = 9 * torch.eye(2, device=device, **F64).expand(3 * n, 2, 2)
    given = conditional(x @ x.T, r, cross / 9, own, jitter=0.1)
    return given.mean, given.covariance, given.std, given.sample(3, seed=0)


def combined(device: Device, n: int) -> Any:
    linear, x, y = (
        FunctionKernel(lambda x, y: x @ y.T),
        normal(device, 5 * n, 2),
        normal(device, 4, 2),
    )
    kernel = Tiled(Combined(Scaled(linear, 2.0), linear, operator.add), 3 * n, 4)
    assert_kernel(kernel, normal(device, 5, 2), y)
    return kernel(x, y), kernel.diagonal(x), kernel.metric(x)


# Views and their losses: images grow.


def pictures(device: Device, n: int, channels: int = 3) -> torch.Tensor:
    return normal(device, n, channels, 8, 8).sigmoid()


def views(device: Device, n: int) -> Any:
    """Numbers are drawn on the host from one seed, and moved at once."""
    shown = pictures(device, 6 * n)
    both = learned.paper_views()
    crop = augmentations.RandomCrop(2)
    return [view(shown, torch.Generator().manual_seed(0)) for view in (*both, crop)]


def losses(device: Device, n: int) -> Any:
    one, other = normal(device, 5 * n, 3), normal(device, 5 * n, 3, seed=1)
    return learned.barlow_twins(one, other), learned.simclr(one, other)


def halved(images: torch.Tensor) -> torch.Tensor:
    return images / 2


def darkened(images: torch.Tensor) -> torch.Tensor:
    return images.square()


def self_supervised(device: Device, n: int) -> Any:
    """Steps grow."""
    features = nn.Sequential(nn.Flatten(), network(CPU, 64, 5))
    net = learned.projector(features, 5, (4, 3))
    step = learned.TwoViews(learned.simclr, halved, darkened, prepare=torch.sin)
    kind = {"steps": 2 * n, "step": step, "device": named(device), "progress": False}
    run = train(net, None, (pictures(CPU, 7, 1), None), partial(torch.optim.SGD, lr=0.1), **kind)
    assert all(part.device.type == device.type for part in run.model.parameters())
    return run.losses


def augmented(device: Device, n: int) -> Any:
    """Steps grow."""
    net = nn.Sequential(nn.Flatten(), network(CPU, 64, 2))
    step = augmentations.Augmented(nn.functional.cross_entropy, halved)
    data = pictures(CPU, 6, 1), torch.arange(6) % 2
    kind = {"steps": 2 * n, "step": step, "device": named(device), "progress": False}
    return train(net, None, data, partial(torch.optim.SGD, lr=0.1), **kind).losses


def probe(device: Device, n: int) -> Any:
    x = normal(device, 9 * n, 2)
    layer = learned.linear_probe(x, (x[:, 0] > 0).long())
    net = learned.with_readout(nn.Flatten(), layer)
    with torch.no_grad():
        return net(x), learned.projector(nn.Linear(2, 3, **F64).to(device), 3, (2,))[1](
            x.new_ones(n, 3)
        )


def on_sphere(device: Device, n: int) -> Any:
    net = learned.OnSphere(network(device, 2, 5))
    volume = geometry.log_volume(net, normal(device, 2, 2).repeat(n, 1), progress=False)
    return volume.value, volume.rank


# Fields on images, and models opened: images grow.


def fields(device: Device, n: int) -> Any:
    net = cifar_resnet(8, **F64).to(device)
    at = images.fields(net, pictures(device, 2).repeat(n, 1, 1, 1), layer="pool", progress=False)
    return at.log_singular, at.condition, at.logits, at.log_volume, at.entropy


def estimated(device: Device, n: int) -> Any:
    net = cifar_resnet(8, **F64).to(device)
    x, options = pictures(device, 2).repeat(n, 1, 1, 1), {"layer": "pool", "progress": False}
    at = images.estimated_fields(net, x, directions=2, **options)
    return at.estimate.stderr, at.rank, at.logits, at.log_volume, at.entropy


def between(device: Device, n: int) -> Any:
    three = pictures(device, 3)
    hull = images.Hull.of(*three, steps=3 * n)
    return images.segment(three[0], three[1], steps=4 * n), hull.images


def changes(device: Device, n: int) -> Any:
    x = normal(device, 12 * n, 2)
    labels = (x[:, 0] > 0).long()
    drawn = class_changes.lines_between(lambda x: (x[:, 0] > 0).long(), x, labels, 2, points=9)
    within = class_changes.lines_within(lambda x: (x[:, 0] > 0).long(), x, labels, 2, points=9)
    return drawn.x.new_zeros(1), within.x.new_zeros(1), drawn.t


def opened(device: Device, n: int) -> Any:
    net, x = network(device, 2, 5, 3), normal(device, 4 * n, 2)
    model = Model.of(net, layer="1")
    with evaluation_mode(model), model.on(x) as f:
        open_values = f(f.points)
    closed = hidden_layer(net, "1")
    return model.evaluate(x, progress=False), open_values, closed.weights, closed.biases


def ensemble(device: Device, n: int) -> Any:
    net = infinite.Network([infinite.Dense(), A.erf, infinite.Dense()], 1.4, 0.2)
    drawn = Ensemble.draw(net, 8, 3, shape=(2,), device=device)
    x, y = normal(device, 3 * n, 2), normal(device, 3 * n, 1, seed=1)
    return drawn(x), drawn.nngp(x), drawn.ntk(x), drawn.trained(x, y, 0.1, steps=2)(x)


CALLS: dict[str, Call] = {
    "KernelRegressor": regressor, "KernelClassifier": classifier, "conditional": gaussian,
    "Combined, Scaled, Tiled": combined, "paper_views": views, "barlow_twins, simclr": losses,
    "TwoViews": self_supervised, "Augmented": augmented, "linear_probe, projector": probe,
    "OnSphere": on_sphere, "images.fields": fields, "images.estimated_fields": estimated,
    "segment, Hull": between, "lines_between, lines_within": changes, "Model": opened, "Ensemble": ensemble,
}  # fmt: skip
HOST = {"images.fields", "images.estimated_fields", "TwoViews", "Augmented"}  # tables and losses
DRAWN = {"Ensemble"}
GROWS = {"TwoViews": 2, "Augmented": 2}  # the loss of every step, so that none diverges unseen


@pytest.mark.parametrize("name", CALLS)
def test_calls_run_where_their_inputs_are(name: str, device: Device) -> None:
    check(CALLS[name], device, host=name in HOST, drawn=name in DRAWN, more=GROWS.get(name, 0))
