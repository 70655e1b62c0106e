"""Accounting or counterfactual: what scores of training points say, against networks trained again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from torch import Tensor, nn

from notebooks.topics.path_kernel.runs import exact
from notebooks.topics.statistics import Array
from numeric.inputs import InputError, generator_for
from numeric.path_kernel import LeftRiemann, Record, influence, influence_function, retrain

PATH, TRACIN, DERIVATIVE = "path kernel", "TracIn", "exact derivative"


@dataclass(frozen=True, eq=False)
class Retrainings:
    """The log-probability of the predicted class at n points, from real retrainings, and what scores said."""

    output: Array  # (n,)
    left_out: NDArray[np.int64]  # (r,), training points that were left out, one each
    without: Array  # (n, r), changes of the output
    subsets: Array  # (s, M), of 0 and 1
    of_subsets: Array  # (n, s), the output
    scores: Mapping[str, Array]  # (n, M)
    incomplete: Mapping[str, float]  # |start + sum of scores - output|, the largest

    def leave_one_out(self, name: str) -> Array:
        """Rank correlations of -score with the change by leaving out, (n,)."""
        return _ranks(-self.scores[name][:, self.left_out], self.without)

    def datamodel(self, name: str) -> Array:
        """Linear datamodelling scores, (n,): rank correlations over subsets of their summed scores."""
        return _ranks(self.scores[name] @ self.subsets.T, self.of_subsets)


def _ranks(one: Array, other: Array) -> Array:
    return np.array([spearmanr(a, b).statistic for a, b in zip(one, other, strict=True)])


def accounts(run: Record, x: Tensor) -> dict[str, Array]:
    """Attributions and derivatives of the predicted output at x by every training point, (n, M)."""
    rows, k = _predicted(run, x)
    by_method = {
        PATH: exact(run).attributions(x)[rows, k],
        DERIVATIVE: influence(run, x, _signals(run, x), progress=False)[:, 0],
    }
    return {name: one.numpy() for name, one in by_method.items()}


def scores_of(run: Record, x: Tensor, damping: float) -> dict[str, Array]:
    """What four methods say of every training point, (n, M), about the predicted output."""
    rows, k = _predicted(run, x)
    function = influence_function(run, x, _signals(run, x), damping=damping)
    both = accounts(run, x)
    return {
        PATH: both[PATH],
        TRACIN: exact(run, LeftRiemann(1)).attributions(x)[rows, k].numpy(),
        f"influence function, λ = {damping:g}": function[:, 0].numpy(),
        DERIVATIVE: both[DERIVATIVE],
    }


def leave_one_out_by_damping(
    run: Record, x: Tensor, truth: Retrainings, dampings: Sequence[float]
) -> dict[float, float | None]:
    """The mean rank correlation of influence functions with removal; None where the Hessian is indefinite."""
    found: dict[float, float | None] = {}
    for damping in dampings:
        try:
            scores = influence_function(run, x, _signals(run, x), damping=damping)[:, 0].numpy()
        except InputError:
            found[damping] = None
        else:
            found[damping] = float(_ranks(-scores[:, truth.left_out], truth.without).mean())
    return found


def _predicted(run: Record, x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows 0 ... n - 1 and the largest output in each."""
    return torch.arange(len(x)), exact(run).network(x).argmax(1)


def _signals(run: Record, x: Tensor) -> Tensor:
    outputs = exact(run).network(x)
    return nn.functional.one_hot(outputs.argmax(1), outputs.shape[1]).double()[:, None]


def retrainings(
    run: Record, x: Tensor, damping: float, leave_out: int, subsets: int, seed: int
) -> Retrainings:
    """Train again without each of some points, and on random halves of the points."""
    kernel, m = exact(run), len(run.x)
    network = kernel.network(x)
    rows, k = _predicted(run, x)
    generator = generator_for("retrainings", seed)
    out = torch.randperm(m, generator=generator)[:leave_out]
    masks = torch.zeros(subsets, m, dtype=torch.float64)
    for mask in masks:
        mask[torch.randperm(m, generator=generator)[: m // 2]] = 1

    def again(factors: Tensor) -> Tensor:
        with torch.no_grad():
            return retrain(run, factors, progress=False)(x)[rows, k]

    alone = 1 - nn.functional.one_hot(out, m).double()
    without = torch.stack([again(one) for one in alone], 1) - network[rows, k, None]
    of_subsets = torch.stack([again(one) for one in masks], 1)
    scores = scores_of(run, x, damping)
    start = kernel.start(x)[rows, k].numpy()
    output = network[rows, k].numpy()
    off = {name: float(np.abs(start + one.sum(1) - output).max()) for name, one in scores.items()}
    return Retrainings(
        output, out.numpy(), without.numpy(), masks.numpy(), of_subsets.numpy(), scores, off
    )
