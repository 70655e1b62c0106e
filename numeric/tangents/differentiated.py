r"""A model opened to be differentiated by its parameters: which rule each one follows, checked on two points.

The check: for a combination of outputs at the second of two points, the assembled gradient must be the one
that `torch.autograd` finds. Where it is not, and where a parameter has a use without a rule, its gradients
are taken for each example by `torch.func`, and `fallbacks` names it. A model that is opened again, and whose
pass at two points is the same sequence of operations, follows the same rules without a second check. Every
pass backwards asks whether a parameter has a use that was not recorded, so that none can be missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import vjp, vmap

from numeric.inputs import ArrayLike, InputError, as_numbers, shown, whole
from numeric.models import Meter, Model, ModelLike
from numeric.models.memory import GIGABYTE, keep_memory
from numeric.tangents.factored import Gradients, concatenated, formed
from numeric.tangents.factors import Outer
from numeric.tangents.trace import Trace, batch_axes, batched_or
from numeric.tangents.uses import Recorder, Use

__all__ = ["Differentiation", "Rules", "differentiation", "gradients"]

UNKNOWN = 2**62  # bytes: they must be measured
GENEROUS = 8  # what is needed at a point in units of the inputs and all signals of its layers


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
    `parameters` are other values by name than the model's own, `modules` the layers that are meant, by
    default all. `memory` is a budget in bytes for what is computed on the way, beside the gradients.
    Returned are `Gradients`: `.inner(other)`, `.along(directions)`, `.dense()`, `.sum()`, and `.fallbacks`,
    the parameters without a rule.
    Refused are what `Model.on` refuses, functions without parameters, signals and parameters that do not fit,
    and a budget that is too small for one point.

    >>> net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()
    >>> g = gradients(net, torch.ones(5, 3, dtype=torch.float64))
    >>> g.inner(g).shape, g.fallbacks
    (torch.Size([5, 2, 5, 2]), ())
    """
    whole("memory", memory)
    count = signals.shape[1] if isinstance(signals, Tensor) and signals.ndim == 3 else None
    with differentiation(model, x, parameters, modules, count, memory) as run:
        signals = run.require_signals(signals)
        return concatenated(
            [
                run.gradients(run.points[rows], None if signals is None else signals[rows])
                for rows in run.chunks(memory)
            ]
        )


@contextmanager
def differentiation(
    model: ModelLike,
    x: ArrayLike,
    parameters: Mapping[str, Tensor] | None = None,
    modules: str | Iterable[str] | None = None,
    signals: int | None = None,
    memory: int = 2 * GIGABYTE,
) -> Iterator[Differentiation]:
    """Open a model at points x (n, ...), to be differentiated by its trainable parameters.

    Points may be a tensor of whole numbers, for a model that takes tokens.

    Inside, `run.gradients(points, signals)` may be called many times, also `run.at(parameters)` at other
    values; `signals` is the number of signals for which `memory` is planned, by default that of the outputs.
    `parameters` replaces some values, and `modules` chooses whose parameters count, by default all.

    Refused are points of another dtype than the model, shapes that it does not take, names of modules or
    parameters that it does not have, and functions, which have no parameters with names.

    >>> net = torch.nn.Linear(3, 2).double()
    >>> with differentiation(net, torch.ones(5, 3, dtype=torch.float64)) as run:
    ...     run.gradients(run.points[:4]).inner(run.gradients(run.points)).shape
    torch.Size([4, 2, 5, 2])
    """
    keep_memory()
    model, x = Model.of(model), as_numbers("x", x)
    everything, chosen = model.parameters(trainable=False), model.parameters(modules=modules)
    fixed = {name: value.detach() for name, value in everything.items() if name not in chosen}
    points, traces = model.check_points(x, tokens=True), []
    run = Differentiation(model, points, x.shape[1:], 0, _leaves(chosen), fixed)
    run = run.at(parameters or {})

    def watched(batch: Tensor) -> Any:
        if (
            len(traces) == 2
        ):  # of two points, and of the first: that of the second tells nothing new
            return run._call(run.leaves, batch)
        outputs, uses = run.record(batch)
        traces.append((outputs, uses))
        return outputs

    with model.on(x, watched, tokens=True) as f:
        run = replace(run, outputs=f.count)
        two, one = (Trace.of(outputs, uses) for outputs, uses in traces[:2])
        yield run.with_rules(one, two, signals or f.count, memory)


@dataclass(frozen=True, eq=False)
class Differentiation:
    """A model in evaluation mode, the parameters that are meant, and the rules they follow."""

    model: Model
    points: Tensor  # (n, d)
    shape: torch.Size  # of a point
    outputs: int  # k
    leaves: Mapping[str, Tensor]  # the parameters that are meant
    fixed: Mapping[str, Tensor]  # the others
    axes: tuple[int | None, ...] = ()  # that hold the examples, for each use
    calls: tuple[Any, ...] = ()  # what is the same in every pass, for each use
    fallbacks: tuple[str, ...] = ()  # parameters without a rule
    peak: int = 0  # bytes needed at one point
    gradient_bytes: int = 0  # bytes of the gradients at one point

    @property
    def dtype(self) -> torch.dtype:
        """Of outputs and signals: that of the points, or of the parameters where the points are tokens."""
        points, leaf = self.points, next(iter(self.leaves.values()))
        return points.dtype if points.is_floating_point() else leaf.dtype

    def at(self, parameters: Mapping[str, Tensor]) -> Differentiation:
        """The same with other values of parameters, by name."""
        if not isinstance(parameters, Mapping):
            raise InputError(
                f"parameters = {shown(parameters)} was given, but tensors by name are needed."
            )
        for name, value in parameters.items():
            if not isinstance(value, Tensor):
                raise InputError(f"The parameter {name!r} must be a tensor, not {shown(value)}.")
            if value.is_floating_point() and (
                value.dtype != self.dtype or value.device != self.points.device
            ):
                raise InputError(
                    f"The parameter {name!r} is {value.dtype} on {value.device} and x is "
                    f"{self.dtype} on {self.points.device}: convert one of them."
                )
        chosen = {k: parameters[k] for k in self.leaves if k in parameters}
        others = {k: v.detach() for k, v in parameters.items() if k not in self.leaves}
        return replace(
            self, leaves={**self.leaves, **_leaves(chosen)}, fixed={**self.fixed, **others}
        )

    def gradients(self, points: Tensor, signals: Tensor | None = None) -> Gradients:
        """The gradients at points (n, d) of signals (n, c, k), by default of all outputs."""
        if signals is None:
            one = torch.eye(self.outputs, device=points.device, dtype=self.dtype)
            signals = one.expand(len(points), -1, -1)
        run = self.trace(points)
        ruled = [name for name in self.leaves if name not in self.fallbacks]
        if ruled and run.calls(self.axes, len(points)) != self.calls:
            return self._without(ruled).gradients(points, signals)
        with torch._C.DisableTorchFunction():
            leaves = {name: self.leaves[name] for name in ruled}
            back, missed = run.backwards(signals.transpose(0, 1), leaves) if ruled else ([], [])
            if missed:
                return self._without(missed).gradients(points, signals)
            parts = run.parts(ruled, self.leaves, self.axes, back, signals.shape[:2])
        if self.fallbacks:
            dense = self._per_example(points, signals)
            parts += tuple(formed(name, value) for name, value in dense.items())
        shapes = {name: value.shape for name, value in self.leaves.items()}
        return Gradients(parts, len(points), signals.shape[1], self.fallbacks, shapes)

    def _without(self, names: Sequence[str]) -> Differentiation:
        """The same with more parameters without a rule, which have other uses at some of the points."""
        without = {*self.fallbacks, *names}
        return replace(self, fallbacks=tuple(name for name in self.leaves if name in without))

    def trace(self, points: Tensor) -> Trace:
        """Run the model at points (n, d), and record where the parameters are used."""
        return Trace.of(*self.record(points))

    def record(self, points: Tensor) -> tuple[Any, list[Use]]:
        """What the model returns at points, and where it uses the parameters."""
        with torch.enable_grad(), Recorder(self.leaves) as recorder:
            return self._call(self.leaves, points), recorder.uses

    def _call(self, values: Mapping[str, Tensor], points: Tensor) -> Tensor:
        batch = points.reshape(-1, *self.shape).clone()  # which the model may overwrite
        return self.model.functional_call({**self.fixed, **values}, batch)

    def with_rules(self, one: Trace, two: Trace, signals: int, memory: int) -> Differentiation:
        """The same with the rules that parameters follow, and with the memory that a point needs.

        `one` and `two` are passes with the first of two points, and with both.
        Memory is measured, unless all layers have inputs and signals from which it is estimated generously,
        and that fits.
        """
        with torch._C.DisableTorchFunction():  # what is computed here needs no repaired operations
            axes = batch_axes(one, two) or ()
            calls, operations = two.calls(axes, 2), two.operations()
            key = (
                self.model.layer, getattr(self.model.body, "__func__", None), self.shape,
                self.points.dtype, self.points.device, tuple(self.leaves), signals,
            )  # fmt: skip
            assert self.model.module is not None  # a function has no parameters, and was refused
            cached = _RULES.setdefault(self.model.module, {})
            rules = cached.get(key)
            if rules is None or not rules.hold(axes, calls, operations):
                rules = Rules(axes, calls, operations, *self._checked(two, axes, signals))
            ruled = replace(
                self,
                axes=axes,
                calls=calls,
                fallbacks=rules.fallbacks,
                peak=rules.peak,
                gradient_bytes=rules.gradient_bytes,
            )
        if not rules.measured and rules.peak * len(self.points) > memory // 2:
            first = self.points[:1]
            with Meter() as meter:
                ones = first.new_ones(1, signals, self.outputs, dtype=self.dtype)
                gradients = ruled.gradients(first, ones)
            rules = replace(rules, peak=meter.peak, gradient_bytes=gradients.bytes, measured=True)
            ruled = replace(ruled, peak=meter.peak, gradient_bytes=gradients.bytes)
        cached[key] = rules
        return ruled

    def _checked(
        self, two: Trace, axes: tuple[int | None, ...], signals: int
    ) -> tuple[tuple[str, ...], int, int]:
        """The parameters without a rule, the bytes at one point as estimated, and those of its gradients."""
        if len(axes) != len(two.uses):
            return tuple(self.leaves), UNKNOWN, UNKNOWN
        checked = two.check(self.leaves, axes)
        gradients = sum(f.bytes_with(signals) for p in checked.parts for f in p.factors) // 2
        estimable = all(isinstance(term, Outer) for term in checked.terms) and not checked.fallbacks
        peak = GENEROUS * checked.bytes_with(signals) if estimable else UNKNOWN
        return checked.fallbacks, peak, gradients

    def _per_example(self, points: Tensor, signals: Tensor) -> dict[str, Tensor]:
        """(n, c, *shape) for each parameter without a rule, by one product for each example and signal."""
        chosen = {name: self.leaves[name].detach() for name in self.fallbacks}
        others = {name: value.detach() for name, value in self.leaves.items()}

        def pulled(point: Tensor, back: Tensor) -> dict[str, Tensor]:
            pull = vjp(lambda v: self._call({**others, **v}, point[None])[0].flatten(), chosen)[1]
            return vmap(pull)(back)[0]

        def one_by_one() -> dict[str, Tensor]:
            leaves = _leaves(chosen)
            rows = []
            for point, signal in zip(points, signals, strict=True):
                run = Trace.of(self._call({**others, **leaves}, point[None]), [])
                by_signal = [run.unrecorded(leaves, one[None]) for one in signal]
                rows += [
                    [v if (v := one[k]) is not None else 0 * leaves[k] for k in leaves]
                    for one in by_signal
                ]
            stacked = [torch.stack(row) for row in zip(*rows, strict=True)]
            counts = signals.shape[:2]
            return {k: v.unflatten(0, counts) for k, v in zip(chosen, stacked, strict=True)}

        with torch.enable_grad():
            by_name = batched_or(lambda: vmap(pulled)(points, signals), one_by_one)
        return {name: value.detach() for name, value in by_name.items()}

    def chunks(self, memory: int) -> Iterator[slice]:
        """Slices of the points whose gradients can be taken within so many bytes."""
        if self.peak > memory:
            raise InputError(
                f"memory = {memory} bytes was given, but the gradients at one point need {self.peak}: "
                "give at least that, or choose fewer modules."
            )
        size = memory // max(1, self.peak)
        for start in range(0, len(self.points), size):
            yield slice(start, min(start + size, len(self.points)))

    def require_signals(self, signals: Tensor | None) -> Tensor | None:
        """Refuse signals that are no tensor (n, c, k) like the points."""
        if signals is None:
            return None
        n, k, shape = len(self.points), self.outputs, getattr(signals, "shape", ())
        if (
            not isinstance(signals, Tensor)
            or len(shape) != 3
            or shape[::2] != (n, k)
            or not shape[1]
        ):
            actual = tuple(shape) if isinstance(signals, Tensor) else shown(signals)
            raise InputError(
                f"signals must be a tensor of shape (n, c, k) = ({n}, c, {k}), but {actual} was given."
            )
        if signals.dtype != self.dtype or signals.device != self.points.device:
            raise InputError(
                f"signals are {signals.dtype} on {signals.device} and outputs {self.dtype} on "
                f"{self.points.device}: convert one of them."
            )
        return signals.detach()


@dataclass(frozen=True, eq=False)
class Rules:
    """Which rules a model follows at two points, its memory, and the pass that these hold for."""

    axes: tuple[int | None, ...]
    calls: tuple[Any, ...]
    operations: tuple[Any, ...]
    fallbacks: tuple[str, ...]
    peak: int
    gradient_bytes: int
    measured: bool = False  # or estimated generously

    def hold(self, *of_a_pass: tuple[Any, ...]) -> bool:
        """Whether a pass does the same operations with the same calls."""
        return (self.axes, self.calls, self.operations) == of_a_pass


_RULES: WeakKeyDictionary[nn.Module, dict[Any, Rules]] = WeakKeyDictionary()


def _leaves(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().requires_grad_() for name, value in values.items()}
