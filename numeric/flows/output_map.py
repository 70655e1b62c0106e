r"""The map from parameters to outputs on fixed points, $x(\theta) \in R^{QN}$, and its Jacobian D.

Parameters are one vector (K,). D is used through products, through $G = D D^T$, which
`numeric.tangents` contracts layer by layer, and is formed only where G would lose the digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from numeric.inputs import ArrayLike, InputError
from numeric.models import Model, ModelLike
from numeric.tangents.differentiated import Differentiation, differentiation
from numeric.tangents.factored import Gradients, concatenated

__all__ = ["Graph", "OutputMap", "output_map", "require_enough_parameters"]


@dataclass(frozen=True, eq=False)
class OutputMap:
    """A model in evaluation mode at points (N, d), as a map from (K,) to (N, Q)."""

    run: Differentiation
    memory: int

    @cached_property
    def shapes(self) -> dict[str, torch.Size]:
        return {name: value.shape for name, value in self.run.leaves.items()}

    @cached_property
    def sizes(self) -> list[int]:
        return [shape.numel() for shape in self.shapes.values()]

    @property
    def parameters(self) -> int:
        """K."""
        return sum(self.sizes)

    @property
    def count(self) -> int:
        """QN."""
        return len(self.run.points) * self.run.outputs

    @property
    def structure(self) -> list[Any]:
        """Layers and parameters by name, as checkpoints compare them."""
        layers = self.run.model.layers
        return [*((name, type(part).__qualname__) for name, part in layers.items()), *self.shapes]

    def pack(self, values: Mapping[str, Tensor]) -> Tensor:
        """Tensors by name -> (K,)."""
        return torch.cat([values[name].detach().flatten() for name in self.shapes])

    def unpack(self, theta: Tensor) -> dict[str, Tensor]:
        """(K,) -> tensors by name."""
        parts = theta.split(self.sizes)
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts)}

    def outputs(self, theta: Tensor) -> Tensor:
        """(N, Q)."""
        return self._call(self.unpack(theta))

    def _call(self, values: Mapping[str, Tensor]) -> Tensor:
        run = self.run
        batch = run.points.reshape(-1, *run.shape).clone()  # which the model may overwrite
        return run.model.functional_call({**run.fixed, **values}, batch).flatten(1)

    def graph(self, theta: Tensor) -> Graph:
        """Outputs with the graph behind them, for products with D^T."""
        leaves = {k: v.detach().requires_grad_() for k, v in self.unpack(theta).items()}
        with torch.enable_grad():
            return Graph(self._call(leaves), list(leaves.values()))

    def gradients(self, theta: Tensor) -> Gradients:
        """The rows of D in factored form, in chunks that fit into memory."""
        run = self.run.at(self.unpack(theta))
        return concatenated([run.gradients(run.points[rows]) for rows in run.chunks(self.memory)])

    def gram(self, theta: Tensor) -> Tensor:
        """G = D D^T, (QN, QN)."""
        rows = self.gradients(theta)
        return rows.inner(rows).reshape(self.count, self.count)

    def jacobian(self, theta: Tensor) -> Tensor:
        """D itself, (QN, K)."""
        dense = self.gradients(theta).dense()
        return torch.cat([value.reshape(self.count, -1) for value in dense.values()], 1)


@dataclass(frozen=True, eq=False)
class Graph:
    """Outputs (N, Q), and the parameters behind them."""

    outputs: Tensor
    leaves: list[Tensor]

    def pull(self, signals: Tensor) -> Tensor:
        """D^T psi for signals psi (N, Q), by one pass backwards: (K,)."""
        parts = torch.autograd.grad(
            self.outputs, self.leaves, signals.reshape(self.outputs.shape), retain_graph=True,
            allow_unused=True, materialize_grads=True,
        )  # fmt: skip
        return torch.cat([part.flatten() for part in parts])

    def push(self, direction: Tensor) -> Tensor:
        """D u for a direction u (K,): (N, Q), as the derivative of u . D^T v by v."""
        v, pulled = self._transposed
        sizes = [leaf.numel() for leaf in self.leaves]
        parts = [part.view_as(leaf) for part, leaf in zip(direction.split(sizes), self.leaves)]
        (moved,) = torch.autograd.grad(pulled, v, parts, retain_graph=True)
        return moved

    @cached_property
    def _transposed(self) -> tuple[Tensor, list[Tensor]]:
        """A vector v = 0 of outputs, and D^T v with the graph behind it."""
        with torch.enable_grad():
            v = torch.zeros_like(self.outputs).requires_grad_()
            pulled = torch.autograd.grad(
                self.outputs, self.leaves, v, create_graph=True, allow_unused=True,
                materialize_grads=True,
            )  # fmt: skip
            return v, [part + 0 * v.sum() for part in pulled]  # some may not depend on v


@contextmanager
def output_map(
    model: ModelLike, x: ArrayLike, memory: int, parameters: Mapping[str, Tensor] | None = None
) -> Iterator[OutputMap]:
    """Open a model at points x (N, ...) as a map of its trainable parameters.

    Without other `parameters`, where a flow starts, it is refused in a mode in which its outputs depend on
    chance or on other points: inside it is in evaluation mode, where it would be another model.
    """
    Model.of(model).check_points(x)  # a flow has the dtype of its points, which are no tokens
    if parameters is None:
        Model.of(model).require_separate_examples(x)
    with differentiation(model, x, parameters, memory=memory) as run:
        yield OutputMap(run, memory)


def require_enough_parameters(map: OutputMap) -> None:
    n, k = map.count, map.parameters
    if n > k:
        raise InputError(
            f"There are {n} outputs (Q = {map.run.outputs} at N = {len(map.run.points)} points) and {k} "
            f"parameters: at least {n - k} directions of outputs are lost at every time, and what the labels "
            "have in them is never learned. Add parameters, drop points, or accept it by rank_deficient=True."
        )
