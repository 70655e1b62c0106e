"""One computation of path-kernel sums: a model at points, and its training steps from the last to the first.

A rule without memory, as of plain SGD, needs inner products of factored gradients only. With memory,
covectors u_r = sum over s >= r of B_{s,r}^T psi_s of the points go backwards through the steps: the
buffers belong to the few points that are asked about, and not to the training points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from numeric.inputs import InputError
from numeric.models import Meter, Model
from numeric.path_kernel.integrals import Integral, dense_as, integrals, joined
from numeric.path_kernel.quadrature import MOST, Nodes, Quadrature
from numeric.path_kernel.record import Record
from numeric.path_kernel.segments import Segment
from numeric.tangents import Differentiation, Gradients, differentiation

__all__ = ["Choices", "Computation", "State"]

ByName = dict[str, Tensor]
COPIES = 4  # of covectors, that are held at once where the optimiser has a memory
ARRAYS = 4  # of the size of a pass forwards, that the search for nodes holds at once
SHARE = 8  # of the memory, for each of the arrays that are held at once

State = dict[str, Any]  # sums so far, and the buffer of covectors


@dataclass(frozen=True, eq=False)
class Choices:
    """Which part of a run is computed, and how."""

    quadrature: Quadrature
    memory: int
    steps: tuple[int, ...] | None
    modules: tuple[str, ...] | None
    groups: Tensor | None


def _moved(differentiation: Differentiation, parameters: ByName) -> Differentiation:
    """Parameters that training did not move have no displacement: they are no leaves."""
    leaves = {name: value for name, value in differentiation.leaves.items() if name in parameters}
    others = {k: v.detach() for k, v in differentiation.leaves.items() if k not in parameters}
    left = tuple(name for name in differentiation.fallbacks if name in parameters)
    return replace(
        differentiation, leaves=leaves, fixed={**differentiation.fixed, **others}, fallbacks=left
    )


@dataclass(frozen=True, eq=False)
class Computation:
    """One computation: the model opened at the points and at the training points."""

    run: Record
    choices: Choices
    model: Model
    x: Tensor  # (n, ...)
    outputs: int  # k
    by_rows: bool
    guess: list[int] = field(default_factory=lambda: [0])  # nodes on a part, in the last step
    last: dict[int, Segment] = field(
        default_factory=dict
    )  # the segment that was made last, by its step

    @cached_property
    def test(self) -> Differentiation:
        return self._opened(self.x)

    @cached_property
    def train(self) -> Differentiation:
        return self._opened(self.run.x)

    def _opened(self, x: Tensor) -> Differentiation:
        parameters = self.run.parameters(0)
        with differentiation(self.model, x, parameters, self.choices.modules) as opened:
            return _moved(opened, parameters)

    def segment(self, s: int) -> Segment:
        """The segment of step s, which shares its end with the one made before, if that was step s + 1."""
        after = self.last.get(s + 1)
        stop = self.run.parameters(s + 1) if after is None else after.start
        end = None if after is None else after.outputs_at_start
        made = Segment(self.model, self.run.parameters(s), stop, self.x, self.by_rows, end)
        self.last.clear()
        self.last[s] = made
        return made

    def nodes(self, segment: Segment) -> Nodes:
        """The nodes, first tried with as many as the last step needed."""
        size = max(1, self.choices.memory // SHARE // ((MOST + 2) * self.bytes_of_a_pass))
        parts = [
            self.choices.quadrature.nodes(segment.at_points(rows), self.guess[0])
            for rows in torch.arange(len(segment.x), device=self.x.device).split(size)
        ]
        nodes = Nodes.cat(parts)
        self.guess[0] = nodes.count
        return nodes

    def psi(self, s: int) -> Integral:
        """psi_s at all points, in their order."""
        segment = self.segment(s)
        return joined(list(integrals(self.test, segment, self.nodes(segment), self.rows)))

    @property
    def decays(self) -> bool:
        """Whether there is weight decay in any step."""
        return any(
            one.coupled or one.decoupled
            for s in range(self.run.steps)
            for one in self.run.rule.coefficients(s).values()
        )

    def counts(self, s: int) -> bool:
        """Whether a step is one of those that are computed."""
        return self.choices.steps is None or s in self.choices.steps

    def outputs_at(self, s: int) -> Tensor:
        return self.model.functional_call(self.run.parameters(s), self.x.clone()).flatten(1)

    def new_zeros(self, *shape: int) -> Tensor:
        """Zeros of the dtype of the weights, which points do not have where they are tokens."""
        return torch.zeros(shape, dtype=self.run.dtype, device=self.x.device)

    def fresh(self, what: str) -> State:
        n, k = len(self.x), self.outputs
        zero = self.new_zeros(n, k)
        if what != "attributions":
            return {"points": zero, "decay": zero.clone(), "buffer": None}
        groups = self.choices.groups
        m = len(self.run.x) if groups is None else int(groups.max()) + 1
        return {"points": self.new_zeros(n, k, m), "buffer": None}

    # One step each, from the last to the first.

    def attribute(self, s: int, state: State) -> None:
        scalar = self.run.rule.scalar(s)
        if scalar is None or state["buffer"]:
            on_gradient = self._pulled_back(s, state)[0]
            if self.counts(s):
                in_order = torch.arange(len(self.x), device=self.x.device)
                self._add(state, s, 1.0, in_order, lambda train: _along(train, on_gradient))
            return
        if not self.counts(s):
            return
        psi = self.psi(s)

        def products(train: Gradients) -> Tensor:
            return psi.gradients.inner(dense_as(train, psi.gradients))[..., 0]

        self._add(state, s, scalar, psi.points, products)

    def _add(
        self,
        state: State,
        s: int,
        scale: float,
        order: Tensor,
        products: Callable[[Gradients], Tensor],
    ) -> None:
        """Add what the examples of a step contributed, some examples at a time.

        `products` of their gradients are (n, k, m), for points in the given order.
        """
        batch = self.run.batch(s)
        signals, differentiation = self.signals(s, batch)
        groups = self.choices.groups
        n, k = state["points"].shape[:2]
        size = max(1, self.choices.memory // SHARE // (8 * n * k * 4))
        training_points = torch.arange(len(self.run.x), device=batch.device)
        in_order = groups is None and len(batch) <= size and torch.equal(batch, training_points)
        for rows in torch.arange(len(batch), device=batch.device).split(size):
            train = differentiation.gradients(
                self.train.points[batch[rows]], scale * signals[rows, None]
            )
            summands = products(train)
            if in_order:
                state["points"].index_add_(0, order, summands)
            else:
                columns = batch[rows] if groups is None else groups[batch[rows]]
                state["points"].index_add_(2, columns, summands[order.argsort()])

    def signals(self, s: int, batch: Tensor) -> tuple[Tensor, Differentiation]:
        """The derivative of the step's loss by the outputs, (m, k), and the model at those weights."""
        parameters = self.run.parameters(self.run.rule.gradient_at(s))
        outputs = self.model.functional_call(parameters, self.run.x[batch]).requires_grad_()
        with torch.enable_grad():
            value = self.run.loss(outputs, self.run.y[batch])
            (signals,) = torch.autograd.grad(value, outputs)
        return signals.flatten(1), self.train.at(parameters)

    def _total_gradient(self, s: int) -> ByName:
        """g_s, computed from the training points at once."""
        batch = self.run.batch(s)
        parameters = self.run.parameters(self.run.rule.gradient_at(s))
        leaves = {name: parameters[name].requires_grad_() for name in self.test.leaves}
        with torch.enable_grad():
            outputs = self.model.functional_call(
                {**parameters, **leaves}, self.run.x[batch].clone()
            )
            value = self.run.loss(outputs, self.run.y[batch])
            gradients = torch.autograd.grad(value, list(leaves.values()))
        return dict(zip(leaves, gradients, strict=True))

    def displace(self, s: int, state: State) -> None:
        """Add psi_s (w_{s+1} - w_s), which is the difference of outputs but for the quadrature's defect."""
        segment = self.segment(s)
        state["points"] += self.nodes(segment).integral

    def sum_up(self, s: int, state: State) -> None:
        scalar = self.run.rule.scalar(s)
        if scalar is None or state["buffer"]:
            on_gradient, on_decay = self._pulled_back(s, state)
            if self.counts(s):
                state["points"] += _product(on_gradient, self._total_gradient(s), state["points"])
                state["decay"] += _product(on_decay, self.run.parameters(s), state["decay"])
            return
        if not self.counts(s):
            return
        segment = self.segment(s)
        nodes = self.nodes(segment)
        step = {name: scalar * g for name, g in self._total_gradient(s).items()}
        self._move(segment, nodes, step, state["points"])
        self._move(segment, nodes, self._decay_step(s), state["decay"])

    def decay_only(self, s: int, state: State) -> None:
        if self.run.rule.scalar(s) is None or state["buffer"]:
            _, on_decay = self._pulled_back(s, state)
            if self.counts(s):
                state["decay"] += _product(on_decay, self.run.parameters(s), state["decay"])
        elif self.counts(s) and (step := self._decay_step(s)):
            segment = self.segment(s)
            self._move(segment, self.nodes(segment), step, state["decay"])

    def _decay_step(self, s: int) -> ByName:
        """c_s of a rule without memory, whose maps are their own transposes."""
        weights = {n: w for n, w in self.run.parameters(s).items() if n in self.test.leaves}
        return self.run.rule.pull_back(s, weights).on_decay

    def _move(self, segment: Segment, nodes: Nodes, step: ByName, total: Tensor) -> None:
        """Add psi_s(x) times a displacement."""
        if not step:
            return
        for rows in torch.arange(len(nodes), device=self.x.device).split(self.rows):
            index = nodes.index[rows]
            _, slopes = segment.slopes(index, nodes.t[rows], step)
            total.index_add_(0, index, nodes.weight[rows, None] * slopes)

    def _pulled_back(self, s: int, state: State) -> tuple[ByName, ByName]:
        """What multiplies g_s and w_s, (n, k, *shape) by name; the buffer is in the state."""
        segment = self.segment(s)
        nodes = self.nodes(segment)
        n, k = len(self.x), self.outputs
        size = sum(value.numel() for value in self.test.leaves.values())
        needed = COPIES * n * k * size * self.run.dtype.itemsize
        if needed > self.choices.memory:
            raise InputError(
                f"memory = {self.choices.memory} bytes was given, but the covectors of {n} points with {k} "
                f"outputs need {needed}: give at least that, ask about fewer points, or choose fewer modules."
            )
        psi = {
            name: v.new_empty(n, k, *v.shape)
            for name, v in segment.start.items()
            if name in self.test.leaves
        }
        for one in integrals(self.test, segment, nodes, self.rows):
            for name, value in one.gradients.dense().items():
                psi[name][one.points] = value
        on_gradient, on_decay, buffer = self.run.rule.pull_back(s, psi, state["buffer"])
        state["buffer"] = buffer
        return on_gradient, on_decay

    @cached_property
    def bytes_of_a_pass(self) -> int:
        """Bytes at one point: both ends of a step, the derivatives by t, and the choices at kinks."""
        with Meter() as meter:
            self.model.functional_call(self.run.parameters(0), self.x[:1].clone())
        return ARRAYS * max(1, meter.peak)

    @cached_property
    def rows(self) -> int:
        """How many rows of points at nodes may be differentiated at once."""
        with Meter() as meter:
            self.test.gradients(self.test.points[:1], None)
        rows = self.choices.memory // SHARE // max(1, meter.peak)
        if not rows:
            raise InputError(
                f"memory = {self.choices.memory} bytes was given, but the gradients at one point need "
                f"{SHARE * meter.peak}: give at least that, or choose fewer modules."
            )
        return rows


def _along(train: Gradients, directions: ByName) -> Tensor:
    """Inner products with covectors (n, k, *shape) by name: (n, k, m)."""
    n, k = next(iter(directions.values())).shape[:2]
    flat = {name: value.flatten(0, 1) for name, value in directions.items()}
    return train.along(flat)[:, 0].T.unflatten(0, (n, k))


def _product(covectors: ByName, vectors: ByName, like: Tensor) -> Tensor:
    """The sum over parameters of covectors (n, k, *shape) times a vector: (n, k)."""
    total = like.new_zeros(())
    for name, covector in covectors.items():
        total = total + covector.flatten(2) @ vectors[name].flatten()
    return total
