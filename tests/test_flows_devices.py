"""Flows run on an accelerator, or on the trial device, with the numbers of the CPU.

Steps follow the numbers, so that a larger problem may make more of them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from scipy.integrate import RK45
from torch import nn

from device_checks import Call, Device, check, network, normal
from numeric import flows
from numeric.flows.output_map import output_map
from numeric.flows.ranges import Factorisations

QUIET = {"progress": False}
SHORT = {"until": 0.02, "tolerance": 1e-2, "method": RK45} | QUIET


def problem(device: Device, n: int, phi: type[nn.Module] = nn.Tanh) -> tuple[Any, Any, Any]:
    net = network(device, 2, 12, 1, phi=phi)[:-1]
    return net, normal(device, 2 * n, 2), normal(device, 2 * n, 1, seed=1)


def integrate(device: Device, n: int, alpha: float = 1.0, **more: Any) -> Any:
    net, x, y = problem(device, n)
    flow = flows.integrate(net, x, y, alpha, **SHORT | more)
    test = normal(device, 3, 2, seed=2)
    parts = (
        flow.outputs(0.01),
        flow.outputs(0.01, test),
        flow.deviation(0.02),
        flow.kernel(0.01, test),
    )
    return *parts, flow.parameters(0.02), flow.loss(0.01), flow.condition(0.01)


def matrix_free(device: Device, n: int) -> Any:
    """The copies are those of residuals, one for each product."""
    net, x, y = problem(device, 1)
    with output_map(net, x, 2**30) as map:
        theta = map.pack(map.run.leaves)
        found = Factorisations(map, 1e-7, 1e-12, dense=False).at(theta, map.graph(theta))
        return found.lift(y.flatten()), found.condition


def follow(device: Device, n: int) -> Any:
    net, x, y = problem(device, n)
    start = net(x).detach()
    run = flows.follow(net, x, lambda t: start + 0.01 * t * y, nodes=1, tolerance=1e-2, **QUIET)
    return run.outputs(1.0)


def kinked(device: Device, n: int) -> Any:
    net, x, y = problem(device, n, nn.ReLU)
    held = flows.slide(net, x, y, until=0.02, tolerance=1e-2, **QUIET)
    steps = flows.euler(net, x, y, until=0.02, steps=3, **QUIET)
    return held.outputs(0.02), held.deviation(0.01), steps.outputs, steps.predicted, steps.pushes


def descend(rule: Any, device: Device, n: int) -> Any:
    run = flows.descend(*problem(device, n), rule, steps=2, batch_size=2, **QUIET)
    return run.parameters


def collapse(device: Device, n: int) -> Any:
    flow = flows.integrate(*problem(device, n), **SHORT)
    classes = torch.arange(2 * n, device=device) % 2
    at = flows.collapse(flow, classes, [0.0, 0.02], layer="1")
    return at.means, at.deviations, at.within, at.between


CALLS: dict[str, Call] = {
    "integrate": integrate, "integrate, alpha": partial(integrate, alpha=0.5),
    "matrix-free": matrix_free,
    "follow": follow, "slide, euler": kinked, "collapse": collapse,
    "descend, GaussNewton": partial(descend, flows.GaussNewton()),
    "descend, NaturalGradient": partial(descend, flows.NaturalGradient()),
    "descend, LevenbergMarquardt": partial(descend, flows.LevenbergMarquardt()),
    "descend, GradientDescent": partial(descend, flows.GradientDescent(0.1)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_flows_run_where_their_inputs_are(name: str, device: Device) -> None:
    check(CALLS[name], device, solver=True)
