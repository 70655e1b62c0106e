"""Comparable runs for different delta: the same initial function, and a time span scaled with delta."""

from __future__ import annotations

import math

import numpy as np
import torch

from numeric.inputs import ArrayLike, number, positive, require_instance, whole
from numeric.relu_dynamics.flow import Flow
from numeric.relu_dynamics.neurons import Neurons, require_neurons
from numeric.relu_dynamics.trajectory import Trajectory

__all__ = ["milestones", "regime"]

FAR = 1e8  # a delta so large that r^2 is lost to rounding beside it: the infinite limit


def regime(
    neurons: Neurons,
    x: ArrayLike,
    y: ArrayLike,
    delta: float,
    span: float,
    tolerance: float = 1e-4,
) -> Trajectory:
    """The flow with one delta for all neurons, for a time of span / |delta|, or span where it is small.

    Where delta is infinite the others' limit is meant: all (a, b), or all |c|, of one size. At minus
    infinity it is run to its end.

    neurons: at the start. x, y: samples, (s,) each. span: the time in units of 1 / |delta|.

    >>> neurons = Neurons.drawn(10, seed=0, antisymmetric=True, device="cpu")
    >>> regime(neurons, [-0.5, 0.5], [1.0, -1.0], delta=4.0, span=1.0).times[-1].item() < 0.25
    True
    """
    require_neurons(neurons)
    delta, span = number("delta", delta, endless=True), positive("span", span)
    if math.isinf(delta):
        limit = neurons.rescaled(math.copysign(FAR, delta))
        time = math.inf if delta < 0 else span / FAR
        return Flow(x, y, limit, delta, time).run(progress=False)
    time = span / math.hypot(1, delta)
    return Flow(x, y, neurons, delta, time, tolerance).run(progress=False)


def milestones(run: Trajectory, count: int) -> list[float]:
    """`count` times, from 0 to the end, that divide the path of the residuals into parts of equal length.

    >>> neurons = Neurons.drawn(10, seed=0, antisymmetric=True, device="cpu")
    >>> times = milestones(regime(neurons, [-0.5, 0.5], [1.0, -1.0], 1.0, 1.0), 3)
    >>> len(times), times[0]
    (3, 0.0)
    """
    require_instance("run", run, Trajectory, "what Flow(...).run() returns")
    whole("count", count, 2)
    steps = (run.residuals[1:] - run.residuals[:-1]).norm(dim=1)
    way = torch.cat([torch.zeros_like(steps[:1]), steps.cumsum(0)]).cpu().numpy()
    times, shares = run.times.numpy(), np.linspace(0, way[-1], count)
    if math.isinf(times[-1]):  # the last step of an exact solution is endless
        return [*np.interp(shares[:-1], way[:-1], times[:-1]).tolist(), math.inf]
    return np.interp(shares, way, times).tolist()
