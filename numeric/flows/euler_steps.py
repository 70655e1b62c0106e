r"""Short explicit steps of a ReLU network along the alpha = 1 velocity, and what its kinks add to outputs.

A trajectory that is pushed towards a kink z = 0 from both sides is carried across it to and fro. A rectifier
is convex: each crossing adds $j |z|$ to the outputs, z its input after the step and j the change of outputs
with the rectifier's output, whatever the direction. For one kink, approached at speeds $v_-$ and $v_+$ from
either side, that is the rate $j\, v_- v_+ / (v_- + v_+)$ (Filippov's), which is known beforehand and does not
vanish with the steps: outputs leave the straight line, $d' = -d/(1-t) + j c$.

Of several kinks no rate is known beforehand: of four velocities or more many averages may stay on all
kinks, and which one steps take depends on their phases. `EulerFlow.predicted` then is an account and no
forecast: the same sum over crossings, of steps that have been made. It says which kinks the deviation comes
from, and that nothing else adds to it but the curvature of a step, which does vanish.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from numeric.flows.costs import require_end
from numeric.flows.kinks import Rectifiers, Slopes, require_rectified
from numeric.flows.output_map import OutputMap, output_map
from numeric.flows.ranges import factorisations, require_rcond
from numeric.inputs import ArrayLike, InputError, as_numbers, whole
from numeric.models import Model, ModelLike
from numeric.models.memory import GIGABYTE
from numeric.progress import progress_bar
from numeric.runs.store import checkpoint, fingerprint

__all__ = ["EulerFlow", "euler"]

SETTINGS = "another model, data, end, steps, device, torch or `key`"


@dataclass(frozen=True, eq=False)
class EulerFlow:
    """Explicit steps along the alpha = 1 velocity of a ReLU network, and what its kinks add to outputs."""

    times: Tensor  # (steps + 1,), on the host
    outputs: Tensor = field(repr=False)  # (steps + 1, N, Q)
    deviations: Tensor = field(repr=False)  # (steps + 1, N, Q), from the straight line
    predicted: Tensor = field(
        repr=False
    )  # (steps + 1, N, Q), summed over the kinks that were crossed
    crossings: int  # of kinks
    reversed: int  # crossings that the next step undoes
    pushes: Tensor = field(repr=False)  # (N, U), the total length that each kink added to outputs
    sizes: list[int] = field(repr=False)

    def largest(self, count: int = 5) -> list[tuple[int, int, int, float]]:
        """The kinks that add most: (layer, unit, example, length)."""
        order = torch.argsort(self.pushes.flatten(), descending=True)[:count].tolist()
        slopes = Slopes(self.pushes, self.sizes)
        pairs = [divmod(k, self.pushes.shape[1]) for k in order]
        return [
            (*slopes.name(unit), example, float(self.pushes[example, unit]))
            for example, unit in pairs
        ]


def euler(
    model: ModelLike,
    x: ArrayLike,
    y: ArrayLike,
    *,
    until: float = 0.9,
    steps: int = 1_000,
    memory: int = 2 * GIGABYTE,
    store: str | Path | None = None,
    key: str = "",
    progress: bool = True,
) -> EulerFlow:
    r"""Equal explicit steps of the alpha = 1 flow of a ReLU network for the cost |x - y|^2 / (2 N).

    $$\theta_{n+1} = \theta_n - \frac{h}{1 - t_n} D^+ (x - y), \qquad
      d_{n+1} = \frac{1 - t_{n+1}}{1 - t_n} d_n + \sum_k j_k |z_k|$$

    model, x, y: as in `slide`; until: the last t; steps: how many.
    store, key: as in `descend`; the checkpoint holds outputs at all steps.
    Returned is an EulerFlow: deviations from the straight line and the account d of them, summed over the
    kinks k that each step crossed, of inputs $z_k$ after it. Deviations do not vanish with the steps.
    Refused are what `slide` refuses, and steps at which D has no full rank.

    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <...>
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 20), torch.nn.ReLU(), torch.nn.Linear(20, 1)).double()
    >>> x, y = torch.randn(5, 2).double(), torch.randn(5, 1).double()
    >>> run = euler(net, x, y, until=0.5, steps=100, progress=False)
    >>> run.outputs.shape, run.crossings > run.reversed
    (torch.Size([101, 5, 1]), True)
    """
    end, _ = require_end(until, None)
    count = whole("steps", steps)
    model, x = Model.of(model), as_numbers("x", x)
    with output_map(model, x, memory) as map:
        objective = require_rectified(map, y, model)
        theta = map.pack(map.run.leaves)
        ranges = factorisations(map, require_rcond(None, theta.dtype), 1e-8)
        step = end / count
        labels, (start, run) = objective.labels, _begin(map, theta)
        outputs, predicted = labels.new_zeros(2, count + 1, *labels.shape)
        choices = (map.structure, end, count, memory)
        file = checkpoint(
            store, fingerprint("euler", *choices, theta, x, labels, start), SETTINGS, key
        )
        if (state := file.read(theta.device)) is not None:
            made = slice(state["made"])
            outputs[made], predicted[made] = state.pop("outputs"), state.pop("predicted")
            run = _Run(**state)

        def state_of_run() -> dict[str, Any]:
            made = slice(run.made)
            path = {"outputs": outputs[made].clone(), "predicted": predicted[made].clone()}
            return vars(run) | path

        with progress_bar(of="steps", show=progress, total=count + 1, initial=run.made) as bar:
            try:
                while (n := run.made) <= count:
                    with Rectifiers() as record:
                        graph = map.graph(run.theta)
                    outputs[n] = graph.outputs.detach()
                    after, moved = _crossed(run, _inputs(record))
                    if n:
                        shrink = (1 - n * step) / (1 - (n - 1) * step)
                        predicted[n] = shrink * predicted[n - 1] + moved
                    D_range = ranges.at(run.theta, graph)
                    if D_range.rank < map.count:
                        raise InputError(
                            f"D has rank {D_range.rank} at t = {n * step:.6g}, not {map.count}: add "
                            "parameters, or take other ones at the start."
                        )
                    residual = (outputs[n] - labels).flatten()
                    run = replace(
                        after,
                        theta=run.theta - step / (1 - n * step) * D_range.lift(residual),
                        made=n + 1,
                        pulls=_pulls(graph.outputs, record.outputs),
                    )
                    bar.update()
                    file.write_when_due(state_of_run)
            finally:
                if run.made:
                    file.write(state_of_run())
    times = step * torch.arange(count + 1, dtype=torch.float64, device="cpu")
    shares = (1 - times).to(outputs)[:, None, None]
    line = labels + shares * (outputs[0] - labels)
    return EulerFlow(
        times,
        outputs,
        outputs - line,
        predicted,
        run.crossings,
        run.reversed,
        run.pushes,
        run.sizes,
    )


@dataclass(frozen=True, eq=False)
class _Run:
    """Where the steps are; a checkpoint holds it with outputs and predictions until then."""

    theta: Tensor  # (K,), after the last step
    signs: Tensor  # (N, U), of the last inputs of rectifiers
    flipped: Tensor  # (N, U), whose sign the last step changed
    pulls: Tensor  # (Q, N, U), with the last inputs
    pushes: Tensor  # (N, U)
    sizes: list[int]
    made: int = 0  # how many outputs are known
    crossings: int = 0
    reversed: int = 0


def _inputs(record: Rectifiers) -> Tensor:
    """Of all rectifiers, (N, U)."""
    return torch.cat([z.detach().flatten(1) for z in record.inputs], 1)


def _begin(map: OutputMap, theta: Tensor) -> tuple[Tensor, _Run]:
    """The outputs at the start, and the run before it has crossed anything."""
    with Rectifiers() as record:
        outputs = map.outputs(theta).detach()
    inputs = _inputs(record)
    none, sizes = torch.zeros_like(inputs), [z.flatten(1).shape[1] for z in record.inputs]
    pulls = none.expand(outputs.shape[1], -1, -1)
    return outputs, _Run(theta, inputs > 0, none.bool(), pulls, none, sizes)


def _crossed(run: _Run, inputs: Tensor) -> tuple[_Run, Tensor]:
    """The run with the crossings of one more step, and what these add to outputs, (N, Q)."""
    signs = inputs > 0
    now = signs ^ run.signs
    moved = run.pulls * torch.where(now, inputs.abs(), 0)  # (Q, N, U)
    after = replace(
        run,
        signs=signs,
        flipped=now,
        crossings=run.crossings + int(now.sum()),
        reversed=run.reversed + int((now & run.flipped).sum()),
        pushes=run.pushes + torch.linalg.vector_norm(moved, dim=0),
    )
    return after, moved.sum(2).T


def _pulls(outputs: Tensor, rectified: list[Tensor]) -> Tensor:
    """The derivatives of each output by each rectifier's output, (Q, N, U)."""
    q = outputs.shape[1]
    eye = torch.eye(q, device=outputs.device, dtype=outputs.dtype)[:, None].expand(
        q, *outputs.shape
    )
    parts = torch.autograd.grad(
        outputs, rectified, eye, retain_graph=True, is_grads_batched=True, allow_unused=True,
        materialize_grads=True,
    )  # fmt: skip
    return torch.cat([part.flatten(2) for part in parts], 2)
