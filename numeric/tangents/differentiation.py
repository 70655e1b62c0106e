r"""A model opened to be differentiated by its parameters: which rule each one follows, checked on two points.

The check: for one output combination of the second of two points, the assembled gradient must be the one that
`torch.autograd` finds. Where it is not, and where a parameter has a use without a rule, its gradients are
taken for each example by `torch.func`, and `fallbacks` names it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.func import vjp, vmap

from numeric.inputs import ArrayLike, InputError, as_numbers, shown, whole
from numeric.models import Meter, Model, ModelLike
from numeric.models.memory import GIGABYTE
from numeric.models.output_checks import farthest
from numeric.tangents.factors import Dense, Factor, Outer, merged, nothing
from numeric.tangents.gradients import Gradients, Part, concatenated
from numeric.tangents.uses import Recorder, Use, batch_axis, by_example

AGREEMENT = 1e3  # roundings by which the square of a gradient may differ from autograd's
STEP = 1e-3  # to a second point, if all points are equal


@dataclass(frozen=True, eq=False)
class Differentiation:
    """A model in evaluation mode, the parameters that are meant, and the rules they follow."""

    model: Model
    points: Tensor  # (n, d)
    shape: torch.Size  # of a point
    outputs: int  # k
    leaves: Mapping[str, Tensor]  # the parameters that are meant
    fixed: Mapping[str, Tensor]  # the others
    axes: tuple[int | None, ...]  # that hold the examples, for each use
    fallbacks: tuple[str, ...]  # parameters without a rule

    def gradients(self, points: Tensor, signals: Tensor | None) -> Gradients:
        """The gradients at points (n, d) of signals (n, c, k), or of all outputs."""
        if signals is None:
            signals = torch.eye(self.outputs, device=points.device, dtype=points.dtype)
            signals = signals.expand(len(points), -1, -1)
        parts = self._ruled(points, signals)
        if self.fallbacks:
            dense = self._per_example(points, signals)
            parts += tuple(
                Part(name, None, (Dense(value.flatten(2), value.shape[2:], bias=False),))
                for name, value in dense.items()
            )
        shapes = {name: value.shape for name, value in self.leaves.items()}
        return Gradients(parts, len(points), signals.shape[1], self.fallbacks, shapes)

    def _ruled(self, points: Tensor, signals: Tensor) -> tuple[Part, ...]:
        ruled = [name for name in self.leaves if name not in self.fallbacks]
        if not ruled:
            return ()
        run = trace(self.model, self.leaves, self.fixed, points, self.shape)
        back = run.backwards(signals.transpose(0, 1))
        return run.parts(ruled, self.leaves, self.axes, back, signals.shape[:2])

    def _per_example(self, points: Tensor, signals: Tensor) -> dict[str, Tensor]:
        """(n, c, *shape) for each parameter without a rule, by one product for each example and signal."""
        chosen = {name: self.leaves[name].detach() for name in self.fallbacks}
        others = {**self.fixed, **{k: v.detach() for k, v in self.leaves.items()}}

        def pulled(point: Tensor, back: Tensor) -> dict[str, Tensor]:
            def outputs(values: Mapping[str, Tensor]) -> Tensor:
                batch = point.reshape(1, *self.shape).clone()
                return self.model.functional_call({**others, **values}, batch).flatten()

            _, pull = vjp(outputs, chosen)
            return vmap(pull)(back)[0]

        with torch.enable_grad():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", UserWarning)  # no batching rule: a slow loop
                    found = vmap(pulled)(points, signals)
            except (RuntimeError, UserWarning, NotImplementedError):
                found = self._one_by_one(points, signals, chosen, others)
        return {name: value.detach() for name, value in found.items()}

    def _one_by_one(
        self,
        points: Tensor,
        signals: Tensor,
        chosen: Mapping[str, Tensor],
        others: Mapping[str, Tensor],
    ) -> dict[str, Tensor]:
        """The same for operations that torch.func cannot batch."""
        leaves = {name: value.detach().requires_grad_() for name, value in chosen.items()}
        rows: list[list[Tensor]] = []
        for point, back in zip(points, signals, strict=True):
            batch = point.reshape(1, *self.shape).clone()
            out = self.model.functional_call({**others, **leaves}, batch).flatten()
            rows += [
                torch.autograd.grad(
                    out, list(leaves.values()), one, retain_graph=True, materialize_grads=True,
                    allow_unused=True,
                )
                for one in back
            ]  # fmt: skip
        return {
            name: torch.stack(parts).unflatten(0, signals.shape[:2])
            for name, parts in zip(leaves, zip(*rows, strict=True), strict=True)
        }

    def chunks(self, signals: int, memory: int) -> Iterator[slice]:
        """Slices of the points whose gradients can be taken within so many bytes."""
        with Meter() as meter:
            back = self.points.new_ones(1, signals, self.outputs)
            self.gradients(self.points[:1], back)
        if meter.peak > memory:
            raise InputError(
                f"memory = {memory} bytes was given, but the gradients at one point need {meter.peak}: "
                "give at least that, or choose fewer modules."
            )
        size = memory // max(1, meter.peak)
        for start in range(0, len(self.points), size):
            yield slice(start, start + size)

    def require_signals(self, signals: Tensor | None) -> Tensor | None:
        """Refuse signals that are no tensor (n, c, k) like the points."""
        if signals is None:
            return None
        n, k = len(self.points), self.outputs
        if (
            not isinstance(signals, Tensor)
            or signals.ndim != 3
            or (signals.shape[0] != n or signals.shape[2] != k or not signals.shape[1])
        ):
            given = tuple(signals.shape) if isinstance(signals, Tensor) else shown(signals)
            raise InputError(
                f"signals must be a tensor of shape (n, c, k) = ({n}, c, {k}), but {given} was given."
            )
        if signals.dtype != self.points.dtype or signals.device != self.points.device:
            raise InputError(
                f"signals are {signals.dtype} on {signals.device} and x is {self.points.dtype} on "
                f"{self.points.device}: convert one of them."
            )
        return signals.detach()


def gradients(
    model: ModelLike,
    x: ArrayLike,
    signals: Tensor | None = None,
    parameters: Mapping[str, Tensor] | None = None,
    modules: str | Iterable[str] | None = None,
    memory: int = 2 * GIGABYTE,
) -> Gradients:
    r"""The gradients of signals . f(x) by the trainable parameters, in factored form.

    $$\nabla_\theta\, v_{ic} \cdot f_\theta(x_i)$$

    x are points (n, ...), `signals` v (n, c, k) for k outputs, by default all outputs one by one (c = k).
    `parameters` are other values by name than the model's own, `modules` the layers that are meant, by default
    all. `memory` is a budget in bytes for what is computed on the way, beside the gradients.
    Returned are `Gradients`: `.inner(other)`, `.along(directions)`, `.dense()`, `.sum()`, and `.fallbacks`.
    Refused are what `Model.on` refuses, functions without parameters, signals of other shapes, and a budget
    that is too small for one point.

    >>> net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    >>> g = gradients(net, torch.ones(5, 3, dtype=torch.float64))
    >>> g.inner(g).shape, g.fallbacks
    (torch.Size([5, 2, 5, 2]), ())
    """
    whole("memory", memory)
    with differentiation(model, x, parameters, modules) as run:
        signals = run.require_signals(signals)
        return concatenated(
            [
                run.gradients(run.points[rows], None if signals is None else signals[rows])
                for rows in run.chunks(run.outputs if signals is None else signals.shape[1], memory)
            ]
        )


@contextmanager
def differentiation(
    model: ModelLike,
    x: ArrayLike,
    parameters: Mapping[str, Tensor] | None = None,
    modules: str | Iterable[str] | None = None,
) -> Iterator[Differentiation]:
    """Open a model at points x (n, ...), to be differentiated by its trainable parameters."""
    model, x = Model.of(model), as_numbers("x", x)
    own = model.parameters(trainable=False)
    chosen = model.parameters(modules=modules)
    given = {} if parameters is None else parameters
    if not isinstance(given, Mapping):
        raise InputError(
            f"parameters = {shown(parameters)} was given, but tensors by name are needed."
        )
    for name, value in given.items():
        if (
            isinstance(value, Tensor)
            and value.is_floating_point()
            and ((value.dtype, value.device) != (x.dtype, x.device))
        ):
            raise InputError(
                f"The parameter {name!r} is {value.dtype} on {value.device} and x is {x.dtype} on "
                f"{x.device}: convert one of them."
            )
    with model.on(x) as f:
        leaves = {k: given.get(k, v).detach().requires_grad_() for k, v in chosen.items()}
        fixed = {k: v.detach() for k, v in {**own, **given}.items() if k not in leaves}
        axes, fallbacks = _rules(model, f.points, x.shape[1:], leaves, fixed)
        yield Differentiation(model, f.points, x.shape[1:], f.count, leaves, fixed, axes, fallbacks)


@dataclass(frozen=True, eq=False)
class Trace:
    """A pass forwards: outputs, and where parameters were used."""

    outputs: Tensor  # (n, k)
    uses: list[Use]

    def backwards(self, signals: Tensor) -> list[Tensor | None]:
        """Signals (c, n, k) brought back to the output of each use, (c, ...)."""
        edges = [use.edge for use in self.uses]
        if not edges or not self.outputs.requires_grad:
            return [None] * len(edges)

        def pull(back: Tensor, batched: bool) -> tuple[Tensor | None, ...]:
            return torch.autograd.grad(
                self.outputs, edges, back, retain_graph=True, allow_unused=True,
                is_grads_batched=batched,
            )  # fmt: skip

        if len(signals) > 1:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", UserWarning)  # no batching rule: a slow loop
                    return list(pull(signals, batched=True))
            except (RuntimeError, UserWarning, NotImplementedError):
                pass
        rows = zip(*(pull(one, batched=False) for one in signals), strict=True)
        return [None if row[0] is None else torch.stack(row) for row in rows]

    def unrecorded(self, leaves: Mapping[str, Tensor], back: Tensor) -> dict[str, Tensor | None]:
        """The gradients of back . outputs by what uses of the leaves were not recorded; None: no such use."""
        if not self.outputs.requires_grad:
            return dict.fromkeys(leaves)
        found = torch.autograd.grad(
            self.outputs, list(leaves.values()), back, retain_graph=True, allow_unused=True
        )
        return dict(zip(leaves, found, strict=True))

    def parts(
        self,
        ruled: Sequence[str],
        leaves: Mapping[str, Tensor],
        axes: tuple[int | None, ...],
        signals: list[Tensor | None],
        counts: torch.Size,  # n, c
    ) -> tuple[Part, ...]:
        """The gradients by those parameters, from signals (c, ...) at each use."""
        weights, biases = self._by_name(0), self._by_name(1)
        joined = {
            name: partner
            for name, used in weights.items()
            if (partner := self._partner(used, biases)) in ruled and name in ruled
        }
        parts = []
        for name in ruled:
            if name in joined.values():
                continue
            partner = joined.get(name)
            terms = [
                self._term(k, role, partner is not None, axes, signals, counts[0])
                for role, named in enumerate((weights, biases))
                for k in named.get(name, ())
                if signals[k] is not None
            ]
            none = nothing(
                leaves[name].shape, partner and leaves[partner].numel(), counts, self.outputs
            )
            parts.append(Part(name, partner, merged(terms) or (none,)))
        return tuple(parts)

    def _by_name(self, role: int) -> dict[str, list[int]]:
        """The uses of each parameter as a weight (0) or as a bias (1)."""
        found: dict[str, list[int]] = {}
        for k, use in enumerate(self.uses):
            name = use.names[role]
            if name is not None:
                found.setdefault(name, []).append(k)
        return found

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
        signals: list[Tensor | None],
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
        both = torch.cat([weight.values, use.layer.bias(use.arguments, back)], 2)
        return Dense(both, weight.shape, bias=True)


def trace(
    model: Model,
    leaves: Mapping[str, Tensor],
    fixed: Mapping[str, Tensor],
    points: Tensor,
    shape: torch.Size,
) -> Trace:
    """Run the model at points (n, d), and record where the leaves are used."""
    batch = points.reshape(-1, *shape).clone()
    with torch.enable_grad(), Recorder(leaves) as recorder:
        outputs = model.functional_call({**fixed, **leaves}, batch).flatten(1)
    return Trace(outputs, recorder.uses)


def _rules(
    model: Model,
    points: Tensor,
    shape: torch.Size,
    leaves: Mapping[str, Tensor],
    fixed: Mapping[str, Tensor],
) -> tuple[tuple[int | None, ...], tuple[str, ...]]:
    """For each use the axis of the examples, and the parameters that have no rule."""
    pair = torch.stack(_two_points(points))
    one, two = (trace(model, leaves, fixed, some, shape) for some in (pair[:1], pair))
    if len(one.uses) != len(two.uses):
        return (), tuple(leaves)
    axes = tuple(
        batch_axis(b.input.shape, 2, a.input.shape, 1, b.layer.leading(b.arguments))
        for a, b in zip(one.uses, two.uses, strict=True)
    )
    back = torch.zeros_like(two.outputs)
    back[1] = torch.arange(1, back.shape[1] + 1, device=back.device).to(back).sin()
    without = {name for name, value in two.unrecorded(leaves, back).items() if value is not None}
    for use, axis in zip(two.uses, axes, strict=True):
        if axis is None or use.overwritten:
            without |= {name for name in use.names if name is not None}
    without |= set(two._by_name(0)) & set(two._by_name(1))  # a weight here and a bias there
    ruled = [name for name in leaves if name not in without]
    parts = two.parts(ruled, leaves, axes, two.backwards(back[None]), torch.Size((2, 1)))
    with torch.enable_grad():
        batch = pair.reshape(-1, *shape).clone()
        outputs = model.functional_call({**fixed, **leaves}, batch).flatten(1)
    expected = Trace(outputs, []).unrecorded(leaves, back)
    without |= {name for part in _wrong(parts, expected) for name in part.names}
    return axes, tuple(name for name in leaves if name in without)


def _wrong(parts: tuple[Part, ...], expected: Mapping[str, Tensor | None]) -> list[Part]:
    """Parts whose gradient at the second of two points is not the expected one, or not 0 at the first.

    |g - h|^2 = |g|^2 - 2 g.h + |h|^2 needs no dense g.
    """
    if not parts:
        return []
    gaps = []
    for part in parts:
        h = {name: value[None] for name in part.names if (value := expected[name]) is not None}
        squares = part.inner(part).diagonal(dim1=0, dim2=2).flatten()  # at both points
        size = sum((value.square().sum() for value in h.values()), squares.new_zeros(()))
        product = part.along(h).flatten()[1] if h else squares.new_zeros(())
        bound = AGREEMENT * torch.finfo(size.dtype).eps * (size + squares[1])
        gaps.append(torch.maximum((size - 2 * product + squares[1]).abs(), squares[0]) <= bound)
    return [
        part for part, close in zip(parts, torch.stack(gaps).tolist(), strict=True) if not close
    ]


def _two_points(points: Tensor) -> tuple[Tensor, Tensor]:
    """The first point and the farthest from it, or a neighbour if all are equal: rows must differ."""
    one, two = farthest(points)
    return (one, one * (1 + STEP) + STEP) if torch.equal(one, two) else (one, two)
