r"""A pass of a model forwards, where it used its parameters, and the gradients that rules give from it.

Each use of a parameter turns the signals that come back to it into a factor of its gradient. `Trace.check`
compares these, in a pass of two points, with what `torch.autograd` finds.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from numeric.models.memory import GIGABYTE
from numeric.tangents import contraction
from numeric.tangents.factored import ParameterGradient
from numeric.tangents.factors import Dense, Factor, Outer, merged, nothing
from numeric.tangents.uses import Use, batch_axis, by_example

__all__ = ["Check", "Trace", "batch_axes", "batched_or"]

AGREEMENT = 1e3  # roundings by which the square of a gradient may differ from autograd's

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Check:
    """Gradients of one signal at two points by rules, and the parameters without a rule."""

    parts: tuple[ParameterGradient, ...]
    terms: tuple[Factor, ...]  # of which the parts were made
    fallbacks: tuple[str, ...]

    def bytes_with(self, signals: int) -> int:
        """What the terms of one point take with so many signals."""
        return sum(term.bytes_with(signals) for term in self.terms) // 2


@dataclass(frozen=True, eq=False)
class Trace:
    """A pass forwards: outputs, and where parameters were used."""

    outputs: Tensor  # (n, k)
    uses: list[Use]

    @classmethod
    def of(cls, outputs: Tensor, uses: list[Use]) -> Trace:
        """From outputs (n, ...)."""
        with torch.enable_grad():
            return cls(outputs.flatten(1), uses)

    def calls(self, axes: tuple[int | None, ...], n: int) -> tuple[Any, ...]:
        """What is the same in every pass, for each use, if each has its axis of the n examples."""
        if len(axes) != len(self.uses):
            return ()
        return tuple(use.call(axis, n) for use, axis in zip(self.uses, axes, strict=True))

    def operations(self) -> tuple[Any, ...]:
        """The operations of the graph behind the outputs: the name of each, and those it takes from."""
        first = self.outputs.grad_fn
        numbers, order, operations = {first: 0}, [first], []
        for node in order:
            before = [] if node is None else [one for one, _ in node.next_functions]
            for one in before:
                if one not in numbers:
                    numbers[one] = len(order)
                    order.append(one)
            operations.append(
                ("" if node is None else node.name(), [numbers[one] for one in before])
            )
        return tuple(operations)

    def backwards(
        self, signals: Tensor, leaves: Mapping[str, Tensor]
    ) -> tuple[list[Tensor | None], list[str]]:
        """Signals (c, n, k) brought back to the output of each use, (c, ...), None where none comes; and the
        leaves that are used elsewhere."""
        edges = [use.edge for use in self.uses]
        by: list[Any] = [*edges, *leaves.values()]
        if not self.outputs.requires_grad:
            return [None] * len(edges), []

        def pull(back: Tensor, batched: bool) -> tuple[Tensor | None, ...]:
            return torch.autograd.grad(
                self.outputs, by, back, retain_graph=True, allow_unused=True,
                is_grads_batched=batched,
            )  # fmt: skip

        def one_by_one() -> list[Tensor | None]:
            rows = zip(*(pull(one, batched=False) for one in signals), strict=True)
            return [None if row[0] is None else torch.stack(row) for row in rows]

        if len(signals) == 1:
            pulled = one_by_one()
        else:
            pulled = batched_or(lambda: list(pull(signals, batched=True)), one_by_one)
        elsewhere = zip(leaves, pulled[len(edges) :], strict=True)
        return pulled[: len(edges)], [name for name, value in elsewhere if value is not None]

    def unrecorded(self, leaves: Mapping[K, Tensor], back: Tensor) -> dict[K, Tensor | None]:
        """The gradients of back . outputs by the uses of leaves that were not recorded; None: no such use."""
        if not leaves or not self.outputs.requires_grad:
            return dict.fromkeys(leaves)
        products = torch.autograd.grad(
            self.outputs, list(leaves.values()), back, retain_graph=True, allow_unused=True
        )
        return dict(zip(leaves, products, strict=True))

    def check(self, leaves: Mapping[str, Tensor], axes: tuple[int | None, ...]) -> Check:
        """Try, in a trace of two points, for which parameters the rules give the gradient."""
        back = torch.zeros_like(self.outputs)
        back[1] = torch.arange(1, back.shape[1] + 1, device=back.device).to(back).sin()
        signals, recorded, unrecorded = self._backpropagated(leaves, back)
        without = set(unrecorded)
        for use, axis in zip(self.uses, axes, strict=True):
            if axis is None or use.overwritten:
                without |= {name for name in use.names if name is not None}
        without |= set(self._by_name(0)) & set(self._by_name(1))  # a weight here and a bias there
        ruled = [name for name in leaves if name not in without]
        terms = self.terms(ruled, leaves, axes, signals, torch.Size((2, 1)))
        parts = tuple(ParameterGradient(*names, merged(factors)) for names, factors in terms)
        without |= {name for part in _wrong(parts, recorded) for name in part.names}
        used = tuple(term for _, factors in terms for term in factors)
        return Check(parts, used, tuple(name for name in leaves if name in without))

    def _backpropagated(
        self, leaves: Mapping[str, Tensor], back: Tensor
    ) -> tuple[list[Tensor | None], dict[str, Tensor], dict[str, Tensor]]:
        """What autograd finds for back . outputs in one pass: signals (1, ...) at each use, and the gradients
        by the recorded uses of parameters and by the others, as far as there are any."""
        if not self.outputs.requires_grad:
            return [None] * len(self.uses), {}, {}
        edges = [use.edge for use in self.uses]
        named = [
            (name, copy)
            for use in self.uses
            for name, copy in zip(use.names, use.copies, strict=True)
            if name is not None and copy is not None
        ]
        by: list[Any] = [*edges, *(copy for _, copy in named), *leaves.values()]
        pulled = torch.autograd.grad(self.outputs, by, back, retain_graph=True, allow_unused=True)
        signals = [None if one is None else one[None] for one in pulled[: len(edges)]]
        recorded: dict[str, Tensor] = {}
        for (name, _), value in zip(named, pulled[len(edges) :], strict=False):
            if value is not None:
                recorded[name] = recorded[name] + value if name in recorded else value
        others = zip(leaves, pulled[len(edges) + len(named) :], strict=True)
        return signals, recorded, {name: value for name, value in others if value is not None}

    def parts(
        self,
        ruled: Sequence[str],
        leaves: Mapping[str, Tensor],
        axes: tuple[int | None, ...],
        signals: Sequence[Tensor | None],
        counts: torch.Size,  # n, c
    ) -> tuple[ParameterGradient, ...]:
        """The gradients by those parameters, from signals (c, ...) at each use."""
        terms = self.terms(ruled, leaves, axes, signals, counts)
        return tuple(ParameterGradient(*names, merged(factors)) for names, factors in terms)

    def terms(
        self,
        ruled: Sequence[str],
        leaves: Mapping[str, Tensor],
        axes: tuple[int | None, ...],
        signals: Sequence[Tensor | None],
        counts: torch.Size,
    ) -> list[tuple[tuple[str, str | None], list[Factor]]]:
        """What each use adds to them, by the names of a weight and its bias."""
        weights, biases = self._by_name(0), self._by_name(1)
        joined = {
            name: partner
            for name, used in weights.items()
            if (partner := self._partner(used, biases)) in ruled and name in ruled
        }
        named_terms = []
        for name in ruled:
            if name in joined.values():
                continue
            partner = joined.get(name)
            terms: list[Factor] = [
                self._term(k, role, partner is not None, axes, signals, counts[0])
                for role, named in enumerate((weights, biases))
                for k in named.get(name, ())
                if signals[k] is not None
            ]
            if not terms:
                size = None if partner is None else leaves[partner].numel()
                terms = [nothing(leaves[name].shape, size, counts, self.outputs)]
            named_terms.append(((name, partner), terms))
        return named_terms

    def _by_name(self, role: int) -> dict[str, list[int]]:
        """The uses of each parameter as a weight (0) or as a bias (1)."""
        places: dict[str, list[int]] = {}
        for k, use in enumerate(self.uses):
            name = use.names[role]
            if name is not None:
                places.setdefault(name, []).append(k)
        return places

    def _partner(self, used: list[int], biases: Mapping[str, list[int]]) -> str | None:
        """The bias of a weight, if the one is never used without the other."""
        partners = {self.uses[k].names[1] for k in used}
        partner = partners.pop() if len(partners) == 1 else None
        return partner if partner is not None and biases[partner] == used else None

    def _term(
        self,
        k: int,
        role: int,
        with_bias: bool,
        axes: tuple[int | None, ...],
        signals: Sequence[Tensor | None],
        n: int,
    ) -> Factor:
        """What one use adds to the gradients by its weight, its bias or both."""
        use, axis, back = self.uses[k], axes[k], signals[k]
        assert axis is not None
        assert back is not None
        back = by_example(back.movedim(0, -1), axis, n).movedim(-1, 1)  # (n, c, r, ...)
        if role == 1:
            bias = use.layer.bias(use.arguments, back)
            return Dense(bias, bias.shape[2:], bias=False)
        weight = use.layer.weight(use.arguments, by_example(use.input, axis, n), back)
        if not with_bias:
            return weight
        if isinstance(weight, Outer):
            return replace(weight, bias=True)
        both = torch.cat([weight.dense().values, use.layer.bias(use.arguments, back)], 2)
        return Dense(both, weight.shape, bias=True)


def batched_or(batched: Callable[[], T], one_by_one: Callable[[], T]) -> T:
    """The result of the first, or of the second where torch.func has no batching rule for an operation."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # it would say so, and loop slowly
            return batched()
    except (RuntimeError, UserWarning):
        return one_by_one()


def batch_axes(one: Trace, two: Trace) -> tuple[int | None, ...] | None:
    """The axis of the examples at each use, from passes of one point and of two; None if those differ."""
    if len(one.uses) != len(two.uses):
        return None
    return tuple(
        batch_axis(b.input.shape, 2, a.input.shape, 1, b.layer.leading(b.arguments))
        for a, b in zip(one.uses, two.uses, strict=True)
    )


def _wrong(
    parts: tuple[ParameterGradient, ...], expected: Mapping[str, Tensor]
) -> list[ParameterGradient]:
    """Parts whose gradient at the second of two points is not the expected one, or not 0 at the first.

    |g - h|^2 = |g|^2 - 2 g.h + |h|^2 needs no dense g.
    """
    close = []
    for part in parts:
        h = {name: expected[name][None] for name in part.names if name in expected}
        pairs = list(itertools.product(part.factors, part.factors))
        first, second = contraction.squares(pairs, 2 * GIGABYTE)
        length = sum((torch.dot(v.flatten(), v.flatten()) for v in h.values()), 0 * first)
        inner = part.along(h)[1, 0, 0] if h else 0 * first
        bound = AGREEMENT * torch.finfo(first.dtype).eps * (length + second)
        close.append(torch.maximum((length - 2 * inner + second).abs(), first) <= bound)
    verdicts = torch.stack(close).tolist() if close else []
    return [part for part, good in zip(parts, verdicts, strict=True) if not good]
