"""Followed paths, sliding flows, short steps and descents that are stopped go on to the same bits."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import RK45
from torch import Tensor, nn

from analytic import InputError
from numeric import flows
from test_flows import QUIET, Stop, network, normal


class Stoppable(nn.Module):
    """A network that fails after so many calls."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body, self.left = body, 10**9

    def forward(self, x: Tensor) -> Tensor:
        self.left -= 1
        if not self.left:
            raise Stop
        return self.body(x)


@dataclass(frozen=True)
class Case:
    """A call, after how many of its model's calls it is stopped, and what must be the same."""

    model: Stoppable
    call: Callable[..., Any]
    stop: int
    other: dict[str, Any]  # a setting under which the checkpoint is refused
    result: Callable[[Any], list[Any]]


def rows(run: flows.FollowedPath | flows.SlidingFlow) -> list[Any]:
    return [row.tobytes() for row in run.curve.trajectory.rows]


def followed() -> Case:
    net, x = Stoppable(network(2, 8, 2)), normal(4, 2, seed=7)
    start, turn = net(x).detach(), normal(4, 2, seed=9) / 3
    call = partial(
        flows.follow, net, x, lambda t: start + turn * torch.sin(3 * t), nodes=3, tolerance=1e-5, method=RK45
    )  # fmt: skip
    other = {"nodes": 2}
    return Case(net, call, 60, other, lambda run: [*rows(run), run.residuals.tolist()])


def slid() -> Case:
    net = Stoppable(network(3, 20, 1, phi=nn.ReLU))
    x, y = normal(6, 3, seed=5), 2 * normal(6, 1, seed=6)
    call = partial(flows.slide, net, x, y, until=0.5, tolerance=1e-5)
    other = {"until": 0.4}
    return Case(net, call, 150, other, lambda run: [*rows(run), run.events, run.sliding])


def stepped() -> Case:
    net = Stoppable(network(2, 24, 2, phi=nn.ReLU))
    call = partial(flows.euler, net, normal(4, 2, seed=7), normal(4, 2, seed=8), steps=40)

    def result(run: flows.EulerFlow) -> list[Any]:
        tensors = (run.outputs, run.predicted, run.pushes)
        return [*(one.tolist() for one in tensors), run.crossings, run.reversed, run.sizes]

    return Case(net, call, 60, {"until": 0.8}, result)


def descended(rule: Any, batch_size: int | None, stop: int) -> Case:
    net, x, y = Stoppable(network(2, 8, 2)), normal(5, 2, seed=7), normal(5, 2, seed=8)
    call = partial(flows.descend, net, x, y, rule, steps=9, batch_size=batch_size)
    other = {"steps": 8}

    def result(run: flows.Descent) -> list[Any]:
        return [run.losses.tolist(), *(value.tolist() for value in run.parameters.values())]

    return Case(net, call, stop, other, result)


CASES = {
    "a followed path": followed,
    "a sliding flow": slid,
    "short steps": stepped,
    "minibatches": partial(descended, flows.GradientDescent(0.1), 2, 20),
    "damped steps": partial(descended, flows.LevenbergMarquardt(), None, 40),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_stopped_goes_on_to_the_same_bits(name: str, tmp_path: Path) -> None:
    case = CASES[name]()
    net, store = case.model, tmp_path / "run.pt"

    def calls_of(**settings: Any) -> tuple[Any, int]:
        net.left = 10**9
        run = case.call(**settings, **QUIET)
        return run, 10**9 - net.left

    whole, calls = calls_of()
    assert case.stop < calls
    net.left = case.stop
    with pytest.raises(Stop):
        case.call(store=store, **QUIET)
    resumed, after = calls_of(store=store)
    assert after < calls - case.stop / 3  # it did not begin anew
    assert case.result(resumed) == case.result(whole)
    again, least = calls_of(store=store)
    assert case.result(again) == case.result(whole)
    assert least < after
    with pytest.raises(InputError, match="was written by a run of another"):
        case.call(store=store, **case.other, **QUIET)


def test_seconds_go_on_too(tmp_path: Path) -> None:
    case = CASES["minibatches"]()
    first = case.call(store=tmp_path / "run.pt", **QUIET).seconds
    again = case.call(store=tmp_path / "run.pt", **QUIET).seconds
    assert np.array_equal(first, again)
