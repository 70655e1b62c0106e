r"""The empirical tangent kernel of a torch model: inner products of the gradients of its outputs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, as_numbers, require_instance, whole
from numeric.kernels import Jet, Kernel
from numeric.models import Model, ModelLike
from numeric.models.memory import GIGABYTE
from numeric.tangents.differentiated import Differentiation, differentiation
from numeric.tangents.factored import Gradients, concatenated
from numeric.tangents.jets import jet_of_gradients

__all__ = ["EmpiricalNTK", "WithoutRule", "ntk"]


class WithoutRule(UserWarning):
    """Some parameters have a use without a rule, so that their gradients were formed for each example."""


def ntk(
    model: ModelLike,
    x: ArrayLike,
    y: ArrayLike | None = None,
    trace: bool = False,
    parameters: Mapping[str, Tensor] | None = None,
    modules: str | Iterable[str] | None = None,
    memory: int = 2 * GIGABYTE,
) -> Tensor:
    r"""The empirical tangent kernel of a model with k outputs.

    $$\Theta_{ab}(x_i, y_j) = \nabla_\theta f_a(x_i) \cdot \nabla_\theta f_b(y_j)$$

    x (n, ...) and y (m, ...) are points as the model takes them, tensors of whole numbers where these are
    tokens; y = None is y = x. The gradients are by the
    parameters that require gradients, of all layers or of `modules`, at the model's own values or at
    `parameters`, other values by name. `memory` is a budget in bytes beside the points and the result; where
    it is short, gradients are computed again for each block of points.
    Returned is (n, m, k, k), or with `trace` the mean over outputs of its diagonal a = b, (n, m). A warning
    `WithoutRule` names the parameters, if any, whose gradients had to be formed for each example.
    Refused are what `Model.on` refuses, functions, which have no parameters, and a budget that is too small
    for one point.

    >>> net = torch.nn.Linear(3, 2, bias=False).double()
    >>> x = torch.eye(3, dtype=torch.float64)
    >>> ntk(net, x).shape
    torch.Size([3, 3, 2, 2])
    >>> ntk(net, x, 2 * x, trace=True).diagonal().tolist()
    [2.0, 2.0, 2.0]
    """
    whole("memory", memory)
    require_instance("trace", trace, bool, "True")
    with ExitStack() as stack:
        one = stack.enter_context(differentiation(model, x, parameters, modules, None, memory))
        other = one
        if y is not None:
            _require_like(y, one)
            other = stack.enter_context(
                differentiation(model, y, parameters, modules, None, memory)
            )
            without = tuple(k for k in one.leaves if k in {*one.fallbacks, *other.fallbacks})
            one, other = replace(one, fallbacks=without), replace(other, fallbacks=without)
        blocks = _blocks(one, other, memory)
        if len(blocks[0]) > 1 or len(blocks[1]) > 1:
            result, without = _in_blocks(one, other, blocks, trace, memory)
            _warn_of(one, without)
            return result
        left = _gradients(one, blocks[0][0], memory)
        right = left if other is one else _gradients(other, blocks[1][0], memory)
    _warn_of(one, {*left.fallbacks, *right.fallbacks})
    # Half of the memory is for the gradients, and half to work in.
    return _products(left, right, trace, memory // 2)


@dataclass(frozen=True, eq=False)
class EmpiricalNTK(Kernel):
    r"""The kernel $k(x, y) = \frac{1}{k} \sum_a \nabla f_a(x) \cdot \nabla f_a(y)$ of a model with k outputs.

    It is called with points (n, ...) as the model takes them; `parameters`, `modules` and `memory` are those
    of `ntk`, which says what is refused. Its metric is that of the gradients as functions of the points.

    >>> kernel = EmpiricalNTK(torch.nn.Linear(3, 2, bias=False).double())
    >>> kernel([[1.0, 0.0, 2.0]], [[3.0, 0.0, 0.0]]).tolist()
    [[3.0]]
    >>> kernel.diagonal([[1.0, 0.0, 2.0]]).tolist()
    [5.0]
    """

    model: ModelLike
    parameters: Mapping[str, Tensor] | None = None
    modules: str | Iterable[str] | None = None
    memory: int = 2 * GIGABYTE

    def __post_init__(self) -> None:
        Model.of(self.model).parameters(modules=self.modules)
        whole("memory", self.memory)

    def __call__(self, x: ArrayLike, y: ArrayLike | None = None) -> Tensor:
        return ntk(self.model, x, y, True, self.parameters, self.modules, self.memory)

    def diagonal(self, x: ArrayLike) -> Tensor:
        with differentiation(
            self.model, x, self.parameters, self.modules, None, self.memory
        ) as run:
            squares, without = [], set()
            for rows in run.chunks(self.memory):
                gradients = run.gradients(run.points[rows])
                squares.append(gradients.squares(self.memory))
                without |= {*gradients.fallbacks}
            _warn_of(run, without)
            return torch.cat(squares) / run.outputs

    def jet(self, x: ArrayLike) -> Jet:
        return jet_of_gradients(self.model, x, self.parameters, self.modules)


def _products(one: Gradients, other: Gradients, trace: bool, memory: int) -> Tensor:
    if trace:
        return one.trace(other, memory) / one.signals
    return one.inner(other, memory).transpose(1, 2)


def _gradients(run: Differentiation, rows: slice, memory: int) -> Gradients:
    chunk = replace(run, points=run.points[rows])
    return concatenated([chunk.gradients(chunk.points[k]) for k in chunk.chunks(memory // 2)])


def _blocks(
    one: Differentiation, other: Differentiation, memory: int
) -> tuple[list[slice], list[slice]]:
    """Points whose gradients, of both sides and twice each, fit into half of the memory; the other half is to
    work in. Twice, as new ones come before the last are freed, and a trace has a copy in another order."""
    size = memory // 8 // max(1, one.gradient_bytes, other.gradient_bytes)
    need = max(2 * one.peak, 2 * other.peak, 8 * one.gradient_bytes, 8 * other.gradient_bytes)
    if need > memory:
        raise InputError(
            f"memory = {memory} bytes was given, but a pair of points needs {need}: give at least that, or "
            "choose fewer modules."
        )
    return _slices(len(one.points), size), _slices(len(other.points), size)


def _slices(count: int, size: int) -> list[slice]:
    return [slice(k, min(k + size, count)) for k in range(0, count, size)]


def _in_blocks(
    one: Differentiation,
    other: Differentiation,
    blocks: tuple[list[slice], list[slice]],
    trace: bool,
    memory: int,
) -> tuple[Tensor, set[str]]:
    """The kernel, and the parameters without a rule."""
    n, m, k = len(one.points), len(other.points), one.outputs
    result = one.points.new_empty((n, m) if trace else (n, m, k, k), dtype=one.dtype)
    without: set[str] = set()
    for r in blocks[0]:
        left = _gradients(one, r, memory)
        without |= {*left.fallbacks}
        for q in blocks[1]:
            if one is other and q.start < r.start:
                continue
            right = left if one is other and q == r else _gradients(other, q, memory)
            without |= {*right.fallbacks}
            values = _products(left, right, trace, memory // 2)
            result[r, q] = values
            if one is other and q != r:
                result[q, r] = values.T if trace else values.permute(1, 0, 3, 2)
    return result, without


def _require_like(y: ArrayLike, run: Differentiation) -> None:
    y = as_numbers("y", y)
    if y.dtype != run.points.dtype or y.device != run.points.device:
        raise InputError(
            f"x is {run.points.dtype} on {run.points.device} and y is {y.dtype} on {y.device}: convert one "
            "of them."
        )


def _warn_of(run: Differentiation, without: set[str]) -> None:
    if without:
        names = ", ".join(name for name in run.leaves if name in without)
        text = (
            f"{names}: no rule covers every use of these parameters, so that their gradients were "
            "formed for each example, which takes longer."
        )
        warnings.warn(text, WithoutRule, stacklevel=3)
