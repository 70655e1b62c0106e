"""Influence: the exact derivative of a trained model's outputs by the weights of its training points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, as_numbers, require_instance, whole
from numeric.models import Model
from numeric.models.memory import GIGABYTE, Meter
from numeric.path_kernel.record import Record
from numeric.path_kernel.weighted_steps import StepGradient, batched_gradient, twice_differentiable
from numeric.progress import progress_bar

__all__ = ["influence"]

ITERATIONS = 1_000  # of conjugate gradients, in one step of backward Euler

ByName = dict[str, Tensor]


def influence(
    record: Record,
    x: ArrayLike,
    signals: ArrayLike | None = None,
    *,
    steps: int | Iterable[int] | None = None,
    memory: int = 2 * GIGABYTE,
    progress: bool = True,
) -> Tensor:
    """How much the outputs after training would change with the weight of each training point.

    d f_k(x; w_N) / d q_i at q = 1, where every step minimises the sum over its batch of q_i w_i loss_i

    and w_i is 1/|B| for a mean and 1 for a sum. Positive: more weight on the training point i raises output
    k. Leaving the point out changes the output by about minus this number, which is first order: `retrain`
    gives the change itself. Nothing is approximated: all steps are followed backwards through the record,
    momentum and Adam's moments included, with Hessian-vector products of each step's loss. That answers what
    would have happened; what each point did add to the outputs is another question, of attributions.

    record: the run.
    x: points (n, ...) as the model takes them.
    signals: (n, c, k), combinations of outputs that are looked at instead; None takes all k outputs.
    steps: those in which the weight of a point changes, from 0 to N - 1; None: in all. Sums over steps are
        the whole.
    memory: in bytes, for covectors and their products, beside the model and one step of the record: so many
        outputs are followed at a time as fit.

    Returned are derivatives (n, k, M), for k outputs (flattened) and M training points, or (n, c, M) for
    signals. Refused are points that do not fit, and a budget that is too small for one output. The cost is
    about 4 gradients of each step for every output.

    >>> from functools import partial
    >>> from numeric.path_kernel import record
    >>> x = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> net, sgd = torch.nn.Linear(1, 1).double(), partial(torch.optim.SGD, lr=0.1)
    >>> loss = torch.nn.functional.mse_loss
    >>> run = record(net, loss, sgd, (x, 2 * x), steps=3, device="cpu", progress=False)
    >>> influence(run, x[:5], progress=False).shape
    torch.Size([5, 1, 20])
    """
    require_instance("record", record, Record, "path_kernel.record(...)")
    points = record.points(x)
    whole("memory", memory)
    chosen = range(record.steps) if steps is None else record.require_steps(steps)
    with twice_differentiable():
        final = _FinalOutputs(record, points, signals)
        count = final.count
        size = _rows_at_once(record, final, memory)
        result = final.new_zeros(count, len(record.x))
        starts = range(0, count, size)
        first = min(chosen, default=record.steps)  # before it nothing counts
        total = len(starts) * (record.steps - first)
        with progress_bar(of="steps", show=progress, total=total) as bar:
            for start in starts:
                shares = result[start : start + size]
                adjoint = _Adjoint(record, final.covectors(start, len(shares)))
                for step in reversed(range(first, record.steps)):
                    adjoint.step_back(step, shares if step in chosen else None)
                    bar.update(1)
    return result.view(len(points), -1, len(record.x))


class _FinalOutputs:
    """The outputs after training, and their gradients."""

    def __init__(self, record: Record, x: Tensor, signals: ArrayLike | None) -> None:
        final = record.parameters(record.steps)
        self.leaves = {name: value.requires_grad_() for name, value in final.items()}
        outputs = Model.of(record.model).functional_call(self.leaves, x).flatten(1)
        if signals is not None:
            weights = as_numbers("signals", signals, "(n, c, k)").to(outputs)
            if weights.ndim != 3 or weights.shape[::2] != outputs.shape:
                n, k = outputs.shape
                raise InputError(
                    f"signals of shape {tuple(weights.shape)} were given, but ({n}, c, {k}) is needed."
                )
            outputs = torch.einsum("nck,nk->nc", weights, outputs)
        self.outputs = outputs.flatten()
        self.count = self.outputs.numel()

    def new_zeros(self, *shape: int) -> Tensor:
        return self.outputs.detach().new_zeros(shape)

    def covectors(self, start: int, count: int) -> ByName:
        """The gradients of so many outputs from one on by the weights, (r, *shape) by name."""
        signals = self.new_zeros(count, self.count)
        signals.diagonal(start).fill_(1)
        gradients = batched_gradient([self.outputs], list(self.leaves.values()), [signals])
        return dict(zip(self.leaves, gradients, strict=True))


def _rows_at_once(record: Record, final: _FinalOutputs, memory: int) -> int:
    """How many outputs fit into memory, by what two and three of them need in the last step."""
    if final.count < 3:
        needed, more = _peak(record, final, 1), 0
    else:
        needed, more = _peak(record, final, 2), _peak(record, final, 3)
        more = max(1, more - needed)
        needed -= more
    if needed > memory:
        raise InputError(
            f"memory = {memory} bytes was given, but one output needs {needed}: give at least that."
        )
    return min(final.count, 1 + (memory - needed) // more) if more else 1


def _peak(record: Record, final: _FinalOutputs, count: int) -> int:
    """The memory of the last step, in bytes, for so many outputs."""
    with Meter() as meter:
        adjoint = _Adjoint(record, final.covectors(0, count))
        adjoint.step_back(record.steps - 1, final.new_zeros(count, len(record.x)))
    return meter.peak


@dataclass
class _Adjoint:
    """Derivatives of r outputs by the state after a step: weights, the optimiser's buffer, second moments.

    Each is (r, *shape) by name. `on_peak` belongs to the largest second moments so far, which amsgrad
    divides by.
    """

    record: Record
    on_weights: ByName
    on_buffer: ByName = field(default_factory=dict)
    on_square: ByName = field(default_factory=dict)
    on_peak: ByName = field(default_factory=dict)

    def step_back(self, step: int, shares: Tensor | None) -> None:
        """Go from the state after a step to that before it; shares (r, M) get the step's derivatives by q.

        They are None where these do not count.
        """
        gradient = StepGradient(self.record, step)
        if self.record.rule.kind.gradient_at_end:
            on_gradient = self._implicit(step, gradient)
        else:
            on_gradient = self._explicit(step, gradient.gradient)
        curved, on_shares = gradient.products(on_gradient)
        for name, part in curved.items():
            self.on_weights[name] = self.on_weights[name] + part
        if shares is not None:
            shares.index_add_(1, gradient.rows, on_shares)

    def _explicit(self, step: int, gradient: Mapping[str, Tensor]) -> ByName:
        rule = self.record.rule
        pulled = rule.pull_back(step, self.on_weights, self.on_buffer)
        before = self.on_weights
        self.on_weights = {
            name: value + pulled.on_decay[name] if name in pulled.on_decay else value
            for name, value in before.items()
        }
        self.on_buffer = pulled.buffer
        if rule.moments is None:
            return pulled.on_gradient
        return self._through_moments(step, before, pulled.on_gradient, gradient)

    def _through_moments(
        self, step: int, before: ByName, on_gradient: ByName, gradient: Mapping[str, Tensor]
    ) -> ByName:
        """Add what goes through Adam's second moments v <- b v + (1 - b) g'^2, which divide the step."""
        rule, made = self.record.rule, self.record.rule.coefficients(step)
        moments, earlier = rule.second_moments(step), rule.second_moments(step - 1)
        weights, after = self.record.parameters(step), self.record.parameters(step + 1)
        for name, v in moments.items():
            one = made[name]
            moved = after[name] - weights[name] - one.decoupled * weights[name]
            # v = 0 is a gradient that never was: to first order its step does not depend on v.
            root = torch.where(v > 0, 2 * one.root * v.sqrt() * one.scale(v), torch.inf)
            on_peak = self.on_peak.get(name, 0) - before[name] * (moved / root)
            on_square = self.on_square.get(name, 0)
            if rule.flag(name, "amsgrad"):
                chosen = v > earlier.get(name, 0)
                on_square = on_square + torch.where(chosen, on_peak, 0)
                self.on_peak[name] = torch.where(chosen, 0, on_peak)
            else:
                on_square = on_square + on_peak
            total = one.sign * gradient[name] + one.coupled * weights[name]
            on_total = 2 * (1 - one.keep_square) * total * on_square
            on_gradient[name] = on_gradient[name] + one.sign * on_total
            self.on_weights[name] = self.on_weights[name] + one.coupled * on_total
            self.on_square[name] = one.keep_square * on_square
        return on_gradient

    def _implicit(self, step: int, gradient: StepGradient) -> ByName:
        """For w_{s+1} = w_s - E g(w_{s+1}): covectors m of w_s with (1 + H E) m = l, those of w_{s+1}.

        With z = E^(1/2) m the matrix 1 + E^(1/2) H E^(1/2) is symmetric, and m = l - H E^(1/2) z; the
        caller adds the product with H, so that -E^(1/2) z is returned, which multiplies the gradient.
        """
        made = self.record.rule.coefficients(step)
        roots = {name: (-made[name].direct) ** 0.5 for name in self.on_weights}

        def apply(z: ByName) -> ByName:
            curved, _ = gradient.products({name: roots[name] * part for name, part in z.items()})
            return {name: part + roots[name] * curved[name] for name, part in z.items()}

        z = _conjugate_gradients(apply, {n: roots[n] * part for n, part in self.on_weights.items()})
        return {name: -roots[name] * part for name, part in z.items()}


def _conjugate_gradients(apply: Callable[[ByName], ByName], right: ByName) -> ByName:
    """Solve a positive definite system for r right sides at once, to rounding."""
    solution = {name: torch.zeros_like(part) for name, part in right.items()}
    residual = direction = right
    square = start = _dot(right, right)
    epsilon = torch.finfo(square.dtype).eps
    for _ in range(ITERATIONS):
        if (square <= (4 * epsilon) ** 2 * start).all():
            return solution
        image = apply(direction)
        curvature = _dot(direction, image)
        if (curvature[square > 0] <= 0).any():
            break
        length = torch.where(square > 0, square / curvature, 0)
        solution = {n: s + _times(length, direction[n]) for n, s in solution.items()}
        residual = {n: r - _times(length, image[n]) for n, r in residual.items()}
        before, square = square, _dot(residual, residual)
        ratio = torch.where(before > 0, square / before, 0)
        direction = {n: r + _times(ratio, direction[n]) for n, r in residual.items()}
    raise InputError(
        "The derivative of a step of backward Euler was not found: 1 + lr H is not positive definite there, "
        "or nearly singular. Lower lr."
    )


def _dot(one: ByName, other: ByName) -> Tensor:
    """(r,)"""
    return torch.stack([(one[n] * other[n]).flatten(1).sum(1) for n in one]).sum(0)


def _times(factors: Tensor, part: Tensor) -> Tensor:
    return factors.view(-1, *[1] * (part.ndim - 1)) * part
