"""Integration from change to change, with a progress bar and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from numeric.inputs import positive, samples_on_a_line
from numeric.progress import progress_bar
from numeric.relu_dynamics.gradient import Samples
from numeric.relu_dynamics.neurons import Neurons
from numeric.relu_dynamics.sliding.event_log import EventLog, LogEntry
from numeric.relu_dynamics.sliding.solution import Solution
from numeric.relu_dynamics.sliding.state import SlidingNetwork, SlidingState
from numeric.relu_dynamics.sliding.step import step
from numeric.relu_dynamics.sliding.tables import Tables
from numeric.runs.store import checkpoint, fingerprint

__all__ = ["integrate"]

STALL = 10_000  # most changes within a relative time INSTANT
INSTANT = 1e-9  # relative to the time so far
RECENT = 8  # last changes, from which the time to the next one is guessed


def integrate(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    alpha: float,
    x: Tensor,
    y: Tensor,
    time: float,
    progress: bool = True,
    store: str | Path | None = None,
) -> Solution:
    r"""Gradient flow of a and b, with c fixed, of $\frac1\alpha\sum_i c_i[a_i x - b_i]_+$ at samples (x, y).

    a, b, c: tensors (m,). x, y: samples, (s,) each, no x twice. time: when to end, finite and above 0.
    Returned is the exact solution at any time, in float64 on the CPU. With a file `store`, an interrupted
    run is resumed, with the same result.

    >>> a, b, c = torch.tensor([[1.0, -1.0], [0.1, 0.2], [1.0, 1.0]], dtype=torch.float64)
    >>> solution = integrate(a, b, c, 1.0, [-0.5, 0.5], [1.0, -1.0], 3.0, progress=False)
    >>> solution.loss(3.0) < solution.loss(0.0)
    True
    """
    x, y = samples_on_a_line(x, y, Neurons(a, b, c, alpha).a)
    end = positive("time", time)
    a, b, c, x, y = (part.detach().to("cpu", torch.float64) for part in (a, b, c, x, y))
    points, order = Samples.of(x)
    start = Neurons(a, b, c, alpha).predict(x) - y
    scale = float(torch.linalg.norm(start) + torch.linalg.norm(y))
    net = SlidingNetwork(Tables.of(points), (c / alpha).numpy(), scale)
    file = checkpoint(store, fingerprint("a and b", a, b, c, alpha, x, y, end))
    if (stored := file.read()) is None:
        state = SlidingState.start(net, torch.stack([a, -b], 1).numpy(), y[order].numpy())
        nodes = [LogEntry.of(state, np.arange(len(a)), None)]
    else:
        nodes = EventLog(**{name: part.numpy() for name, part in stored.items()}).nodes()
    try:
        with progress_bar(of="time", show=progress, total=end, initial=nodes[-1].time) as bar:
            for node in _changes(net, nodes, end):
                bar.update(node.time - nodes[-1].time)
                bar.set_postfix(loss=f"{(node.residuals**2).sum() / 2:.3g}", refresh=False)
                nodes.append(node)
                file.write_when_due(lambda: _fields(nodes))
    finally:
        file.write(_fields(nodes))
    return Solution(net, EventLog.of(nodes), order)


def _changes(net: SlidingNetwork, nodes: list[LogEntry], end: float) -> Iterator[LogEntry]:
    state = EventLog.of(nodes).state(net, len(nodes) - 1)
    while state.time < end:
        recent = state.time - nodes[-min(len(nodes), RECENT)].time
        state, change = step(net, state, end, recent / RECENT or end)
        if len(nodes) >= STALL and state.time - nodes[-STALL].time <= INSTANT * state.time:
            raise ArithmeticError(
                f"{STALL} changes at the time {state.time}, which may go on for ever: move the samples "
                "or the neurons a little, or give a shorter time."
            )
        yield LogEntry.of(state, np.array([], int) if change is None else change.who, change)


def _fields(nodes: list[LogEntry]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(part) for name, part in vars(EventLog.of(nodes)).items()}
