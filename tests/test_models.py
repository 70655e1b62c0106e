"""A module or callable opened once: layers, evaluation mode, batches, parameters, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import grad, jacrev, vmap

from drawn_networks import WIDE, deep, drawn, points
from numeric import models
from numeric.inputs import InputError
from numeric.models import Meter, Model, evaluation_mode

NET = deep(3, 5, 4)  # Linear, GELU, Linear, GELU


class Encoder(nn.Module):
    """A module with a method of its own, and two layers inside another."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 4, **WIDE), nn.Tanh())
        self.last = nn.Linear(4, 1, **WIDE)
        generator = torch.Generator().manual_seed(seed)
        for part in self.parameters():
            nn.init.normal_(part, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.encode(x))

    def encode(self, x: Tensor) -> Tensor:
        return self.inner(x)


def with_statistics(*parts: nn.Module) -> nn.Sequential:
    return drawn(nn.Sequential(nn.Linear(3, 4), *parts)).train()


def test_layers_are_listed_by_name_and_cut_at() -> None:
    model = Model.of(Encoder())
    assert list(model.layers) == ["inner", "inner.0", "inner.1", "last"]
    x = points(6, 2)
    cut = model.up_to("inner.0")
    assert torch.equal(cut(x), model.module.inner[0](x))
    assert cut.layer == "inner.0"
    assert Model.of(cut) is cut
    assert Model.of(torch.sin).layers == {}


def test_what_follows_the_layer_is_not_computed() -> None:
    net = nn.Sequential(nn.Linear(2, 3, **WIDE), nn.Tanh(), nn.Linear(3, 1, **WIDE))
    calls: list[None] = []
    net[2].register_forward_hook(lambda *_: calls.append(None))
    Model.of(net, "1")(points(4, 2))
    assert not calls


def test_a_layer_that_never_runs_is_refused() -> None:
    class Idle(Encoder):
        def forward(self, x: Tensor) -> Tensor:
            return self.encode(x)

    with pytest.raises(InputError, match="'last' runs 0 times"):
        Model.of(Idle(), "last")(points(4, 2))


@pytest.mark.parametrize("fails", [False, True])
def test_modes_and_buffers_are_restored_after_an_error_too(fails: bool) -> None:
    net = with_statistics(nn.BatchNorm1d(4), nn.Dropout(0.5))
    net[2].eval()
    modes = [part.training for part in net.modules()]
    before = {name: buffer.clone() for name, buffer in net.named_buffers()}
    try:
        with evaluation_mode(net):
            assert not any(part.training for part in net.modules())
            net[1].running_mean += 1
            net[1].train()
            if fails:
                raise KeyError("as a user's own code may")
    except KeyError:
        assert fails
    assert [part.training for part in net.modules()] == modes
    assert all(torch.equal(buffer, before[name]) for name, buffer in net.named_buffers())


def test_functions_have_no_mode() -> None:
    with evaluation_mode(torch.sin):
        pass


@pytest.mark.parametrize("layer", [None, "1"])
def test_batches_do_not_change_what_is_evaluated(layer: str | None) -> None:
    x = points(23, 3)
    model = Model.of(NET, layer)
    expected = model(x).detach()
    for batch_size in (None, 1, 7, 100):
        result = model.evaluate(x, batch_size=batch_size, progress=False)
        assert not result.requires_grad
        torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(model.evaluate(x.numpy()), expected, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(model.evaluate(x.tolist()), expected, rtol=1e-12, atol=1e-14)


def test_batches_fit_into_memory() -> None:
    net, x = deep(3, 400, 2), points(200, 3)
    with Meter() as meter:
        Model.of(net).evaluate(x, progress=False)
    assert meter.peak > 1_000_000
    with Meter() as meter:
        Model.of(net).evaluate(x, memory=100_000, progress=False)
    assert meter.peak < 120_000  # the result and the points of a batch come on top
    with pytest.raises(InputError, match="memory = 100 bytes was given, but one point needs"):
        Model.of(net).evaluate(x, memory=100)


def test_evaluation_is_that_of_evaluation_mode() -> None:
    net = with_statistics(nn.BatchNorm1d(4), nn.Dropout(0.5))
    x = points(9, 3)
    result = Model.of(net).evaluate(x)
    assert net.training
    assert net[1].num_batches_tracked == 0
    torch.testing.assert_close(result, net.eval()(x).detach(), rtol=1e-12, atol=1e-14)


def test_parameters_are_chosen_by_what_is_trained_and_by_module() -> None:
    net = Encoder()
    net.last.bias.requires_grad_(False)
    model = Model.of(net)
    assert list(model.parameters()) == ["inner.0.weight", "inner.0.bias", "last.weight"]
    assert list(model.parameters(trainable=False))[-1] == "last.bias"
    assert list(model.parameters(modules="last")) == ["last.weight"]
    assert len(model.parameters(modules=["inner.0", "last"])) == 3
    assert model.parameters()["last.weight"] is net.last.weight


@pytest.mark.parametrize("kind", ["module", "method", "cut"])
def test_functional_calls_take_other_parameters_and_leave_the_model_alone(kind: str) -> None:
    net, other, x = Encoder(0), Encoder(1), points(5, 2)
    opened = {"module": net, "method": net.encode, "cut": Model.of(net, "inner")}[kind]
    expected = {"module": other, "method": other.encode, "cut": other.encode}[kind](x)
    model, before = Model.of(opened), net(x)
    assert torch.equal(model.functional_call(dict(other.named_parameters()), x), expected)
    assert torch.equal(net(x), before)
    some = model.functional_call({"inner.0.bias": net.inner[0].bias + 1}, x)
    assert not torch.equal(some, model(x))


def test_functional_calls_are_differentiated_by_parameters() -> None:
    """The Gram matrix of gradients for each example is what an empirical tangent kernel is made of."""
    net, x = Encoder(), points(4, 2)
    model = Model.of(net)

    def value(parameters: dict[str, Tensor], point: Tensor) -> Tensor:
        return model.functional_call(parameters, point[None])[0, 0]

    parameters = {name: part.detach() for name, part in model.parameters().items()}
    rows = vmap(grad(value), (None, 0))(parameters, x)
    whole = jacrev(lambda p: model.functional_call(p, x)[:, 0])(parameters)
    for name, part in rows.items():
        torch.testing.assert_close(part, whole[name], rtol=1e-12, atol=1e-14)
    net(x)[0].backward()
    torch.testing.assert_close(rows["last.weight"][0], net.last.weight.grad, rtol=1e-12, atol=1e-14)


REFUSED = {
    "batch norm": (with_statistics(nn.BatchNorm1d(4)), r"BatchNorm1d \(1\) normalises by the batch in tr"),
    "no running statistics": (
        with_statistics(nn.BatchNorm1d(4, track_running_stats=False)).eval(), "by the batch always",
    ),
    "dropout": (with_statistics(nn.Tanh(), nn.Dropout(0.1)), r"Dropout \(2\) drops units at random"),
    "rows that mix": (lambda x: x - x.mean(0), "in a batch than for the point alone"),
    "noise": (lambda x: x + torch.randn_like(x), "or is random"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_examples_that_are_not_separate_are_refused_on_request(name: str) -> None:
    model, words = REFUSED[name]
    state, generator = {}, torch.random.get_rng_state()
    if isinstance(model, nn.Module):
        state = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(InputError, match=words) as refused:
        Model.of(model).require_separate_examples(points(5, 3))
    assert str(refused.value).count(". ") == 0  # one sentence
    assert all(torch.equal(value, model.state_dict()[key]) for key, value in state.items())
    assert torch.equal(torch.random.get_rng_state(), generator)


def test_separate_examples_pass_whatever_the_mode_of_parts_that_do_not_run() -> None:
    net = with_statistics(nn.Tanh(), nn.Dropout(0.5), nn.BatchNorm1d(4))
    x = points(5, 3)
    Model.of(net, "1").require_separate_examples(x)
    assert net.training
    assert not any(part._forward_pre_hooks for part in net.modules())
    Model.of(net.eval()).require_separate_examples(x)
    Model.of(with_statistics(nn.Dropout(0.0))).require_separate_examples(x)
    Model.of(with_statistics(nn.LayerNorm(4))).require_separate_examples(np.ones((2, 3)))


def test_public_names_are_there() -> None:
    assert all(hasattr(models, name) for name in models.__all__)
