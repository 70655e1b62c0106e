"""Wrong calls of flows end in one sentence; those that a user is likely to make say what to do."""

import math
from functools import cache, partial

import pytest
import torch
from scipy.integrate import LSODA
from torch import Tensor, nn

from analytic import InputError
from numeric import flows
from refusals import require_refusals
from test_flows import F64, QUIET, network, normal, small

NET, X, Y = small()
NAN = torch.full((4, 2), math.nan, **F64)


def integrate(**wrong: object) -> object:
    right = {"model": NET, "x": X, "y": Y, "until": 0.01, "tolerance": 1e-2}
    return flows.integrate(**right | QUIET | wrong)


def follow(**wrong: object) -> object:
    start = NET(X).detach()
    right = {"model": NET, "x": X, "path": lambda t: start + t * 0.01, "tolerance": 1e-2}
    return flows.follow(**right | QUIET | wrong)


def slide(**wrong: object) -> object:
    return flows.slide(**{"model": NET, "x": X, "y": Y, "until": 0.01} | QUIET | wrong)


def descend(**wrong: object) -> object:
    right = {"model": NET, "x": X, "y": Y, "rule": flows.GradientDescent(), "steps": 1}
    return flows.descend(**right | QUIET | wrong)


@cache
def finished() -> object:
    return integrate()


def collapse(**wrong: object) -> object:
    return flows.collapse(**{"flow": finished(), "classes": [0, 0, 1, 1], "times": [0.0]} | wrong)


def with_decay(outputs: Tensor, labels: Tensor) -> Tensor:
    return (outputs - labels).square().sum() + sum(p.square().sum() for p in NET.parameters())


class Noisy(nn.Module):
    """Random in evaluation mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network(2, 8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + torch.randn_like(self.body(x))


LIKELY = {  # a wrong call, and what its sentence must say
    "more outputs than parameters": (
        partial(integrate, model=network(2, 1, 2), x=normal(4, 2), y=Y),
        "at least 1 directions of outputs are lost",
    ),
    "alpha": (partial(integrate, alpha=1.5), "from 0 to 1"),
    "t = 1": (partial(integrate, until=1.0), "give until below 1"),
    "labels of another shape": (partial(integrate, y=Y[:, :1]), "outputs at x have"),
    "class numbers as labels": (partial(integrate, y=torch.arange(4)), "one-hot"),
    "a cost of parameters": (partial(integrate, cost=with_decay), "weight decay"),
    "a cost of nothing": (
        partial(integrate, cost=lambda a, b: b.sum().requires_grad_()),
        "depend on the outputs",
    ),
    "a random cost": (
        partial(integrate, cost=lambda a, b: (a * torch.randn_like(a)).sum()),
        "random",
    ),
    "a random layer": (partial(integrate, model=Noisy()), "random"),
    "equal inputs with different labels": (
        partial(integrate, x=torch.cat([X[:3], X[1:2]]), y=Y),
        "Inputs 1 and 3 are equal",
    ),
    "kinks": (
        partial(integrate, model=network(2, 8, 2, phi=nn.ReLU)),
        "flows.slide",
    ),
    "float32": (
        partial(integrate, model=network(2, 8, 2).float(), x=X.float(), tolerance=1e-8),
        "model.double()",
    ),
    "a path of another start": (partial(follow, path=lambda t: t * Y), "begin at model"),
    "a smooth model that slides": (slide, "flows.integrate"),
}


@pytest.mark.parametrize("name", LIKELY)
def test_likely_mistakes_are_explained(name: str) -> None:
    call, says = LIKELY[name]
    with pytest.raises(InputError) as refusal:
        call()
    assert says in str(refusal.value)


WRONG = {
    "integrate": (
        integrate,
        [
            {"model": 3}, {"model": torch.sin}, {"x": "abc"}, {"x": X[:, :1]}, {"y": NAN}, {"y": Y[:3]},
            {"alpha": -0.1}, {"alpha": "one"}, {"alpha": math.nan}, {"until": 0.0}, {"until": 1.1},
            {"until": "late"}, {"duration": 0.0}, {"duration": math.inf}, {"cost": 3},
            {"cost": lambda a, b: a}, {"cost": lambda a: a.sum()}, {"cost": lambda a, b: 1.0},
            {"tolerance": 0.0}, {"tolerance": 1e-20}, {"method": "RK45"}, {"method": LSODA},
            {"rcond": 0.0}, {"rcond": 5.0}, {"progress": "no"}, {"x": X.to("meta")},
            {"steps": 0}, {"memory": 0}, {"store": "/"},
        ],
    ),
    "follow": (
        follow,
        [
            {"path": 3}, {"path": lambda t: t}, {"path": lambda t: "abc"}, {"until": 0.0}, {"nodes": 0},
            {"tolerance": -1.0}, {"method": 3}, {"model": network(2, 8, 2, phi=nn.ReLU)},
        ],
    ),
    "slide": (slide, [{"y": Y[:3]}, {"until": 1.0}, {"tolerance": 0.0}, {"steps": 0.5}]),
    "descend": (
        descend,
        [
            {"rule": "gn"}, {"rule": flows.GradientDescent}, {"steps": 0}, {"batch_size": 9},
            {"seed": 2**70}, {"rule": flows.NaturalGradient(fisher=lambda outputs: outputs)},
            {"rule": flows.NaturalGradient(fisher=lambda outputs: 1.0)},
            {"rule": flows.GaussNewton(), "cost": lambda a, b: a.square().sum()}, {"y": Y[:, 0]},
        ],
    ),
    "collapse": (
        collapse,
        [
            {"flow": 3}, {"classes": [0, 1]}, {"classes": [0, 0, 2, 2]}, {"classes": [0.5] * 4},
            {"classes": [0, 0, 1, 10**12]}, {"classes": None}, {"classes": "0011"},
            {"classes": [[0], [0, 1]]}, {"times": []}, {"times": [0.5]}, {"times": None},
            {"times": "ab"}, {"times": [None]},
            {"times": torch.zeros(())}, {"layer": "9"},
        ],
    ),
}  # fmt: skip


RULES = [
    partial(flows.GradientDescent, "a"), partial(flows.GradientDescent, -1.0),
    partial(flows.GaussNewton, rcond=5.0), partial(flows.GaussNewton, rcond="a"),
    partial(flows.LevenbergMarquardt, damping=-1), partial(flows.LevenbergMarquardt, factor=0.5),
    partial(flows.LevenbergMarquardt, factor=1), partial(flows.LevenbergMarquardt, fisher=3),
    partial(flows.NaturalGradient, 0.0), partial(flows.NaturalGradient, damping="a"),
    partial(flows.NaturalGradient, fisher="f"),
]  # fmt: skip


def test_wrong_rules_are_refused_when_they_are_made() -> None:
    require_refusals((str(rule), rule) for rule in RULES)


def test_whoever_gives_no_rule_is_told_of_all_four() -> None:
    rules = (
        flows.GradientDescent,
        flows.GaussNewton,
        flows.LevenbergMarquardt,
        flows.NaturalGradient,
    )
    with pytest.raises(InputError) as refusal:
        descend(rule="gn")
    assert all(f"{rule.__name__}()" in str(refusal.value) for rule in rules)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_are_refused(name: str) -> None:
    call, wrong = WRONG[name]
    require_refusals((f"{name}({one})", partial(call, **one)) for one in wrong)


def with_part(part: nn.Module, phi: type[nn.Module] = nn.Tanh) -> nn.Sequential:
    """The network of 42 parameters with a layer before its last one."""
    first, bend, last = network(2, 8, 2, phi=phi)
    return nn.Sequential(first, bend, part, last)


def euler(**wrong: object) -> object:
    return flows.euler(**{"model": NET, "x": X, "y": Y, "steps": 1} | QUIET | wrong)


CALLS = {  # of each kind of flow, and the activation that it takes
    "integrate": (integrate, nn.Tanh),
    "follow": (follow, nn.Tanh),
    "descend": (descend, nn.Tanh),
    "slide": (slide, nn.ReLU),
    "euler": (euler, nn.ReLU),
}


@pytest.mark.parametrize("name", CALLS)
def test_models_in_training_mode_that_draw_or_mix_are_refused(name: str) -> None:
    """The flow would be that of another model: the one in evaluation mode, where the same call runs."""
    call, phi = CALLS[name]
    parts = {
        "drops units at random": nn.Dropout(0.5),
        "normalises by the batch": nn.BatchNorm1d(8, affine=False, dtype=torch.float64),
    }
    for says, part in parts.items():
        net = with_part(part, phi)
        start = net.eval()(X).detach()
        path = {"path": lambda t, start=start: start + 0.01 * t}
        right = {"model": net} | (path if name == "follow" else {})
        before = {key: value.clone() for key, value in net.state_dict().items()}
        call(**right)
        net.train()
        with pytest.raises(InputError, match=says) as refusal:
            call(**right)
        assert "call model.eval()" in str(refusal.value)
        assert part.training
        for key, value in net.state_dict().items():
            assert torch.equal(value, before[key])


def test_a_flow_is_asked_in_whatever_mode_its_model_is_then() -> None:
    net = with_part(nn.Dropout(0.5)).eval()
    flow = integrate(model=net)
    kernel = flow.kernel(0.01)
    net.train()
    assert torch.equal(flow.kernel(0.01), kernel)


def test_times_outside_a_flow_are_refused() -> None:
    flow = integrate()
    require_refusals((str(t), partial(flow.outputs, t)) for t in (-0.1, 0.5, math.nan, "now"))


def test_fewer_parameters_can_be_accepted() -> None:
    run = integrate(model=network(2, 1, 2), x=normal(4, 2), rank_deficient=True)
    (event,) = run.events
    assert len(event.directions) == 8 - event.after >= 1
