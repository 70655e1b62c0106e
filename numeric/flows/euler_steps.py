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

from dataclasses import dataclass, field

import torch
from torch import Tensor

from numeric.flows.costs import require_end
from numeric.flows.kinks import Rectifiers, Slopes, require_rectified
from numeric.flows.output_map import output_map
from numeric.flows.ranges import factorisations, require_rcond
from numeric.inputs import ArrayLike, InputError, as_numbers, whole
from numeric.models import Model, ModelLike
from numeric.models.memory import GIGABYTE
from numeric.progress import progress_bar

__all__ = ["EulerFlow", "euler"]


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
    progress: bool = True,
) -> EulerFlow:
    r"""Equal explicit steps of the alpha = 1 flow of a ReLU network for the cost |x - y|^2 / (2 N).

    $$\theta_{n+1} = \theta_n - \frac{h}{1 - t_n} D^+ (x - y), \qquad
      d_{n+1} = \frac{1 - t_{n+1}}{1 - t_n} d_n + \sum_k j_k |z_k|$$

    model, x, y: as in `slide`; until: the last t; steps: how many.
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
        outputs, predicted = [], [torch.zeros_like(objective.labels)]
        before, flipped, crossings, undone = None, None, 0, 0
        pushes, sizes = theta.new_zeros(0), []
        for n in progress_bar(range(count + 1), of="steps", show=progress):
            with Rectifiers() as record:
                graph = map.graph(theta)
            inputs = torch.cat([z.detach().flatten(1) for z in record.inputs], 1)
            outputs.append(graph.outputs.detach())
            if before is not None:
                signs, pulls = before
                now = (inputs > 0) != signs
                moved = pulls * torch.where(now, inputs.abs(), 0)  # (Q, N, U)
                shrink = (1 - n * step) / (1 - (n - 1) * step)
                predicted.append(shrink * predicted[-1] + moved.sum(2).T)
                pushes += torch.linalg.vector_norm(moved, dim=0)
                crossings += int(now.sum())
                undone += int((now & flipped).sum()) if flipped is not None else 0
                flipped = now
            else:
                pushes, sizes = (
                    torch.zeros_like(inputs),
                    [z.flatten(1).shape[1] for z in record.inputs],
                )
            before = inputs > 0, _pulls(graph.outputs, record.outputs)
            D_range = ranges.at(theta, graph)
            if D_range.rank < map.count:
                raise InputError(
                    f"D has rank {D_range.rank} at t = {n * step:.6g}, not {map.count}: add parameters, or "
                    "take other ones at the start."
                )
            residual = (outputs[-1] - objective.labels).flatten()
            theta = theta - step / (1 - n * step) * D_range.lift(residual)
    times = step * torch.arange(count + 1, dtype=torch.float64, device="cpu")
    path = torch.stack(outputs)
    shares = (1 - times).to(path)[:, None, None]
    line = objective.labels + shares * (path[0] - objective.labels)
    return EulerFlow(
        times, path, path - line, torch.stack(predicted), crossings, undone, pushes, sizes
    )


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
