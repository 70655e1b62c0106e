"""Wrong calls of geometry, geodesics, tangents and models end in an InputError, never in the depths."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from analytic.activations import erf, monomial
from drawn_networks import WIDE, deep, drawn
from numeric import geodesics, geometry, infinite, models, tangents
from numeric.geodesics import Search
from numeric.models import Model, ShallowNetwork
from refusals import require_refusals

NET = deep(2, 5, 4)
HIDDEN = drawn(nn.Sequential(nn.Linear(2, 5), nn.Tanh()))
X = torch.tensor([[0.1, 0.2], [0.3, -0.4]], **WIDE)
P, Q = X
ONE = Search(starts=1)
QUIET = {"progress": False}


def graph(x: Tensor) -> Tensor:
    return torch.cat([x, x.square().sum(1, keepdim=True)], 1)


POINTS: dict[str, Any] = {
    "text": "0.1, 0.2",
    "None": None,
    "texts": [["a", "b"]],
    "an array of texts": np.array([["0.1", "0.2"]]),
    "objects": np.array([[None, object()]]),
    "NaN": [[0.1, float("nan")]],
    "infinity": torch.tensor([[0.1, float("inf")]], **WIDE),
    "truth values": [[True, False]],
    "a tensor of truth values": torch.tensor([[True, False]]),
    "complex": torch.ones(1, 2, dtype=torch.complex128),
    "complex numbers": [[1j, 2.0]],
    "whole numbers": torch.ones(1, 2, dtype=torch.long),
    "another dtype": X.float(),
    "too many coordinates": torch.ones(2, 3, **WIDE),
    "one number": 0.5,
    "a single point": X[0],
    "no points": X[:0],
    "rows of several lengths": [[1.0, 2.0], [3.0]],
    "a dictionary": {"x": X},
    "a sparse tensor": X.to_sparse(),
    "a list of a tensor and a text": [P, "q"],
}
MODELS: dict[str, Any] = {
    "text": "network",
    "None": None,
    "a number": 3.0,
    "an array": np.eye(2),
    "one that returns text": lambda x: "features",
    "one that returns None": lambda x: None,
    "one that returns an array": lambda x: x.detach().numpy(),
    "one of two arguments": lambda x, y: x + y,
    "one that fails": lambda x: x["no key"],
    "one that raises of its own": lambda x: (_ for _ in ()).throw(KeyError("none")),
    "one that mixes examples": lambda x: x - x.mean(0),
    "a class": nn.Linear,
    "one without forward": nn.ModuleList([nn.Linear(2, 2)]),
}
CALLS: dict[str, Callable[..., Any]] = {
    "metric": lambda model, x: geometry.metric(model, x, **QUIET),
    "ricci_scalar": lambda model, x: geometry.ricci_scalar(model, x, **QUIET),
    "ricci_estimate": lambda model, x: geometry.ricci_estimate(model, x, probes=4, **QUIET),
    "log_volume": lambda model, x: geometry.log_volume(model, x, **QUIET),
    "spectrum": lambda model, x: geometry.spectrum(model, x, **QUIET),
    "distances": lambda model, x: geodesics.distances(model, x, search=ONE, **QUIET),
    "mean": lambda model, x: geodesics.mean(model, x, search=ONE, **QUIET),
    "evaluate": lambda model, x: Model.of(model).evaluate(x, **QUIET),
    "ntk": tangents.ntk,
    "require_separate_examples": lambda model, x: Model.of(model).require_separate_examples(x),
}


@pytest.mark.parametrize("call", CALLS)
def test_wrong_points_and_models(call: str) -> None:
    points = (
        (f"{name}, {type(net).__name__}", net, x)
        for name, x in POINTS.items()
        for net in (NET, HIDDEN)
    )
    models = ((name, model, X) for name, model in MODELS.items())
    require_refusals((label, partial(CALLS[call], *pair)) for label, *pair in (*points, *models))


OPTIONS: dict[str, Callable[[], Any]] = {
    "layer of a number": lambda: geometry.metric(NET, X, layer=1),
    "layer of no name": lambda: geometry.log_volume(NET, X, layer="nine"),
    "layer of bytes": lambda: geometry.spectrum(NET, X, layer=b"1"),
    "layer of a list": lambda: geometry.ricci_scalar(NET, X, layer=["1"]),
    "layer of a truth value": lambda: geodesics.between(NET, P, Q, layer=True),
    "layer of a function": lambda: geometry.metric(graph, X, layer="1"),
    "layer of a kernel": lambda: geometry.metric(infinite.FullyConnected(erf).nngp, X, layer="1"),
    "text to a kernel": lambda: geometry.metric(infinite.FullyConnected(erf).nngp, "x"),
    "NaN to a kernel": lambda: geometry.metric(infinite.FullyConnected(erf).nngp, X * float("nan")),
    "memory of text": lambda: geometry.log_volume(NET, X, memory="lots"),
    "memory of None": lambda: geometry.spectrum(NET, X, memory=None),
    "memory of a fraction": lambda: geometry.log_volume(NET, X, memory=1e9),
    "memory of a truth value": lambda: geometry.log_volume(HIDDEN, X, memory=True),
    "memory below a point": lambda: geometry.log_volume(HIDDEN, X, memory=8),
    "probes of text": lambda: geometry.ricci_estimate(NET, X, probes="many"),
    "probes of one": lambda: geometry.ricci_estimate(NET, X, probes=1),
    "seed of text": lambda: geometry.ricci_estimate(NET, X, seed="zero"),
    "seed of 70 bits": lambda: geometry.ricci_estimate(NET, X, seed=2**70),
    "seed of None": lambda: geometry.ricci_estimate(NET, X, seed=None),
    "evaluate, memory of text": lambda: Model.of(NET).evaluate(X, memory="lots"),
    "evaluate, batch of text": lambda: Model.of(NET).evaluate(X, batch_size="all"),
    "evaluate, batch of none": lambda: Model.of(NET).evaluate(X, batch_size=0),
    "ntk of a function": lambda: tangents.ntk(graph, X),
    "ntk, trace of text": lambda: tangents.ntk(NET, X, trace="yes"),
    "ntk at nothing but a shape": lambda: tangents.ntk(NET, X.to("meta")),
    "progress of text": lambda: geometry.spectrum(NET, X, progress="no"),
    "ntk, y of text": lambda: tangents.ntk(NET, X, "y"),
    "ntk, y of another dtype": lambda: tangents.ntk(NET, X, X.float()),
    "ntk, y of another shape": lambda: tangents.ntk(NET, X, torch.ones(2, 3, **WIDE)),
    "ntk, memory of text": lambda: tangents.ntk(NET, X, memory="lots"),
    "ntk, memory below a point": lambda: tangents.ntk(NET, X, memory=8),
    "ntk, no such modules": lambda: tangents.ntk(NET, X, modules="nine"),
    "ntk, modules without parameters": lambda: tangents.ntk(NET, X, modules="1"),
    "ntk, nothing to train": lambda: tangents.ntk(frozen(), X),
    "ntk, parameters of text": lambda: tangents.ntk(NET, X, parameters="theta"),
    "ntk, a parameter of text": lambda: tangents.ntk(NET, X, parameters={"0.bias": "0"}),
    "ntk, no such parameter": lambda: tangents.ntk(NET, X, parameters={"nine": P}),
    "ntk, a parameter of another shape": lambda: tangents.ntk(NET, X, parameters={"0.bias": P}),
    "ntk, a parameter of another dtype": lambda: tangents.ntk(
        NET, X, parameters={"0.bias": torch.ones(5)}
    ),
    "ntk, a model of two dtypes": lambda: tangents.ntk(
        nn.Sequential(nn.Linear(2, 3, **WIDE), nn.Linear(3, 2)), X
    ),
    "EmpiricalNTK of a function": lambda: tangents.EmpiricalNTK(graph),
    "EmpiricalNTK of text": lambda: tangents.EmpiricalNTK("network"),
    "EmpiricalNTK, metric": lambda: tangents.EmpiricalNTK(NET).metric(X[:, :1]),
    "gradients, memory below a point": lambda: tangents.gradients(NET, X, memory=8),
    "gradients, signals of text": lambda: tangents.gradients(NET, X, "all"),
    "gradients, signals of two axes": lambda: tangents.gradients(NET, X, torch.ones(2, 4, **WIDE)),
    "gradients, signals of too few outputs": lambda: tangents.gradients(
        NET, X, torch.ones(2, 1, 2, **WIDE)
    ),
    "gradients, no signals": lambda: tangents.gradients(NET, X, torch.ones(2, 0, 4, **WIDE)),
    "gradients, signals of another dtype": lambda: tangents.gradients(NET, X, torch.ones(2, 1, 4)),
    "inner, of text": lambda: tangents.gradients(NET, X).inner("g"),
    "inner, of another model": lambda: tangents.gradients(NET, X).inner(
        tangents.gradients(HIDDEN, X)
    ),
    "along text": lambda: tangents.gradients(NET, X).along("up"),
    "along nothing": lambda: tangents.gradients(NET, X).along({}),
    "along no such parameter": lambda: tangents.gradients(NET, X).along({"nine": X}),
    "along another shape": lambda: tangents.gradients(NET, X).along({"0.bias": X}),
    "p of text": lambda: geodesics.between(graph, "p", Q),
    "q of text": lambda: geodesics.between(graph, P, "q"),
    "p and q of text": lambda: geodesics.distance(graph, "p", "q"),
    "p of None": lambda: geodesics.several(graph, None, Q),
    "p of a number": lambda: geodesics.relax(graph, 0.1, 0.2),
    "p of NaN": lambda: geodesics.between(graph, P * float("nan"), Q),
    "p of truth values": lambda: geodesics.between(graph, [True, False], Q),
    "p of no coordinates": lambda: geodesics.between(graph, [], []),
    "p and q of two shapes": lambda: geodesics.between(graph, P, [1.0]),
    "p and q of two dtypes": lambda: geodesics.between(graph, P, Q.float()),
    "p and q of texts": lambda: geodesics.between(
        graph, np.array(["1", "2"]), np.array(["1", "2"])
    ),
    "batches for points": lambda: geodesics.between(graph, X, X),
    "model of text": lambda: geodesics.between("net", P, Q),
    "model of None": lambda: geodesics.relax(None, P, Q),
    "model that returns text": lambda: geodesics.shoot(lambda x: "text", P, Q),
    "model of text, batches": lambda: geodesics.between("net", X, X),
    "search of text": lambda: geodesics.between(graph, P, Q, search="fast"),
    "search of a number": lambda: geodesics.distances(graph, X, search=4),
    "search of None": lambda: geodesics.mean(graph, X, search=None),
    "relax, search of text": lambda: geodesics.relax(graph, P, Q, search="fast"),
    "segments of text": lambda: geodesics.relax(graph, P, Q, segments="many"),
    "segments of a fraction": lambda: geodesics.relax(graph, P, Q, segments=8.5),
    "starts of text": lambda: Search(starts="four"),
    "starts of none": lambda: Search(starts=0),
    "seed of a fraction": lambda: Search(seed=0.5),
    "tolerance of text": lambda: Search(tolerance="small"),
    "tolerance of a truth value": lambda: Search(tolerance=True),
    "tolerance of NaN": lambda: Search(tolerance=float("nan")),
    "weights of text": lambda: geodesics.mean(graph, X, "equal"),
    "weights of texts": lambda: geodesics.mean(graph, X, ["a", "b"]),
    "weights of NaN": lambda: geodesics.mean(graph, X, [1.0, float("nan")]),
    "too few weights": lambda: geodesics.mean(graph, X, [1.0]),
    "shoot, p of text": lambda: geodesics.shoot(graph, "p", Q),
    "shoot, v of text": lambda: geodesics.shoot(graph, P, "v"),
    "shoot, v of None": lambda: geodesics.shoot(graph, P, None),
    "shoot, v of two shapes": lambda: geodesics.shoot(graph, P, [1.0]),
    "shoot, v of whole numbers": lambda: geodesics.shoot(graph, P, torch.tensor([1, 0])),
    "shoot, time of text": lambda: geodesics.shoot(graph, P, Q, "long"),
    "shoot, time of None": lambda: geodesics.shoot(graph, P, Q, None),
    "shoot, time of a truth value": lambda: geodesics.shoot(graph, P, Q, True),
    "shoot, tolerance of text": lambda: geodesics.shoot(graph, P, Q, tolerance="small"),
    "at a text": lambda: geodesics.between(graph, P, Q, search=ONE).at("half"),
    "at None": lambda: geodesics.between(graph, P, Q, search=ONE).velocity(None),
    "ray at a text": lambda: geodesics.shoot(graph, P, Q - P).at("half"),
    "open text": lambda: Model.of("net"),
    "open None": lambda: Model.of(None, "1"),
    "cut at a number": lambda: Model.of(NET).up_to(1),
    "cut at None": lambda: Model.of(NET).up_to("none"),
    "cut a function": lambda: Model.of(graph).up_to("1"),
    "evaluation mode of text": lambda: models.evaluation_mode("net").__enter__(),
    "hidden layer of text": lambda: models.hidden_layer("net"),
    "hidden layer at a number": lambda: models.hidden_layer(NET, 1),
    "preactivations of text": lambda: models.hidden_layer(HIDDEN).preactivations("x"),
    "jacobian of a vector": lambda: models.hidden_layer(HIDDEN).jacobian([1.0, 2.0]),
    "parameters of a function": lambda: Model.of(graph).parameters(),
    "parameters of no module": lambda: Model.of(NET).parameters(modules="nine"),
    "parameters of a number": lambda: Model.of(NET).parameters(modules=1),
    "parameters of numbers": lambda: Model.of(NET).parameters(modules=[0]),
    "parameters of Tanh": lambda: Model.of(NET).parameters(modules="1"),
    "functional call of a function": lambda: Model.of(graph).functional_call({}, X),
    "functional call of text": lambda: Model.of(NET).functional_call("weights", X),
    "functional call of no name": lambda: Model.of(NET).functional_call({"w": X}, X),
    "functional call of a number": lambda: Model.of(NET).functional_call({0: X}, X),
    "functional call of a shape": lambda: Model.of(NET).functional_call({"0.weight": X}, X),
    "functional call of a value": lambda: Model.of(NET).functional_call({"0.weight": "w"}, X),
    "shallow, activation of text": lambda: ShallowNetwork("erf", X, P),
    "shallow, open activation": lambda: ShallowNetwork(monomial(), X, P),
    "shallow, weights of text": lambda: ShallowNetwork(erf, "weights", P),
    "shallow, biases of None": lambda: ShallowNetwork(erf, X, None),
    "shallow, biases of a shape": lambda: ShallowNetwork(erf, X, [0.0]),
    "shallow, whole weights": lambda: ShallowNetwork(erf, torch.ones(2, 2, dtype=torch.long), P),
    "shallow, x of text": lambda: ShallowNetwork(erf, X, P).metric("x"),
    "shallow, x of a dtype": lambda: ShallowNetwork(erf, X, P).ricci_scalar(X.float()),
    "shallow, x of NaN": lambda: ShallowNetwork(erf, X, P).magnification(X * float("nan")),
    "gaussian, width of text": lambda: gaussian(width="wide"),
    "gaussian, d of None": lambda: gaussian(d=None),
    "gaussian, sigma of text": lambda: gaussian(sigma="one"),
    "gaussian, zeta of NaN": lambda: gaussian(zeta=float("nan")),
    "gaussian, generator of a seed": lambda: gaussian(generator=0),
    "gaussian, dtype of text": lambda: gaussian(dtype="float64"),
    "gaussian, stack of text": lambda: gaussian(stack="two"),
    "perceptron of text": lambda: models.perceptron("wide"),
    "perceptron of None": lambda: models.perceptron(None),
    "perceptron of no layers": lambda: models.perceptron(()),
    "perceptron, seed of text": lambda: models.perceptron(3, seed="zero"),
    "perceptron, activation of text": lambda: models.perceptron(3, activation="relu"),
    "perceptron, outputs of text": lambda: models.perceptron(3, outputs="two"),
    "perceptron, dtype of text": lambda: models.perceptron(3, dtype="float64"),
    "parallel networks of text": lambda: models.ParallelNetworks("nets"),
    "parallel networks of numbers": lambda: models.ParallelNetworks([1, 2]),
    "parallel networks of none": lambda: models.ParallelNetworks([]),
    "resnet, blocks of text": lambda: models.ResNet("3463", generator=torch.Generator()),
    "resnet, blocks of a number": lambda: models.ResNet(4, generator=torch.Generator()),
    "resnet, no stages": lambda: models.ResNet((), generator=torch.Generator()),
    "resnet, activation of text": lambda: resnet(activation="relu"),
    "resnet, open activation": lambda: resnet(activation=monomial()),
    "resnet, block of text": lambda: resnet(block="basic"),
    "resnet, classes of text": lambda: resnet(classes="ten"),
    "resnet, no colours": lambda: resnet(colours=0),
    "cifar_resnet of 21 layers": lambda: models.cifar_resnet(21),
    "cifar_resnet of text": lambda: models.cifar_resnet("20"),
    "resnet, width of text": lambda: resnet(width="wide"),
    "resnet, generator of None": lambda: resnet(generator=None),
    "resnet, dtype of whole numbers": lambda: resnet(dtype=torch.int64),
    "resnet50, seed of text": lambda: models.resnet50("zero"),
    "resnet50, seed of 70 bits": lambda: models.resnet50(2**70),
}


def gaussian(**changes: Any) -> ShallowNetwork:
    arguments = {"width": 3, "d": 2, "sigma": 1.0, "zeta": 1.0, "generator": torch.Generator()}
    return ShallowNetwork.gaussian(erf, **{**arguments, **changes})


def frozen() -> nn.Module:
    return drawn(nn.Sequential(nn.Linear(2, 2))).requires_grad_(False)


def resnet(**changes: Any) -> nn.Module:
    return models.ResNet((1, 1, 1, 1), **{"width": 2, "generator": torch.Generator(), **changes})


def test_wrong_options() -> None:
    require_refusals(OPTIONS.items())


def test_arrays_and_lists_are_points_too_and_tensors_keep_their_dtype() -> None:
    for call in (CALLS["metric"], CALLS["distances"], CALLS["evaluate"]):
        for net in (NET, HIDDEN, graph):
            expected = call(net, X)
            for points in (
                X.numpy(),
                X.tolist(),
                list(X),
                X.numpy().astype(np.float32).astype(float),
            ):
                torch.testing.assert_close(call(net, points), expected, rtol=1e-6, atol=1e-7)
            assert torch.equal(call(net, X.numpy()), expected)
        assert call(graph, X.float()).dtype == torch.float32
    path = geodesics.between(graph, P.tolist(), Q.numpy(), search=ONE)
    assert path.length == geodesics.distance(graph, P, Q, search=ONE)
    assert path.at([0.0, 1.0]).dtype == torch.float64
