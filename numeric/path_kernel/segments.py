r"""A model on a segment of weights, $w(t) = w_0 + t\,(w_1 - w_0)$, each row of a batch at a t of its own.

    segment = Segment.of(model, start, stop, x)
    segment.outputs(index, t)         # at the points x[index], (e,), (e,) -> (e, k)
    segment.slopes(index, t)          # the same, and their derivatives by t
    segment.switches(index, t)        # the same, and the values that decide on which side of a kink a unit is

Where all parameters have a rule, rows have parameters of their own: see `numeric.path_kernel.row_parameters`.
Else the model is run once for each distinct t.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch
import torch.autograd.forward_ad as forward_mode
from torch import Tensor

from numeric.models import Model
from numeric.path_kernel.kinks import Switches, SwitchRecorder
from numeric.path_kernel.row_parameters import RowParameters, Rows, rows_have_rules

__all__ = ["Segment", "groups_of"]

Parameters = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Segment:
    """The segment from `start` to `stop` of a model, at points; parameters that are not named stay.

    `by_rows` says whether rows can have a t of their own in one pass, as `rows_have_rules` finds out.
    """

    model: Model
    start: Parameters
    stop: Parameters
    x: Tensor  # (n, ...)
    by_rows: bool
    end: Tensor | None = field(default=None, repr=False)  # f(x; w_1), if it is known
    first_layer: dict[Any, Tensor] = field(default_factory=dict, repr=False)  # see RowParameters

    @classmethod
    def of(cls, model: Model, start: Parameters, stop: Parameters, x: Tensor) -> Segment:
        """The segment, after a pass at two points that tells whether rows can have a t of their own."""
        return cls(model, start, stop, x, rows_have_rules(model, start, x))

    def at_points(self, rows: Tensor) -> Segment:
        """The same segment at some of the points."""
        if len(rows) == len(self.x):
            return self
        end = self.outputs_at_end[rows]
        return Segment(self.model, self.start, self.stop, self.x[rows], self.by_rows, end)

    @cached_property
    def step(self) -> Parameters:
        """stop - start, by name."""
        return {name: self.stop[name] - value for name, value in self.start.items()}

    def at(self, t: float) -> Parameters:
        """The parameters at one t; the ends are exact."""
        if t in (0, 1):
            return self.stop if t else self.start
        return {name: torch.lerp(value, self.stop[name], t) for name, value in self.start.items()}

    @cached_property
    def outputs_at_start(self) -> Tensor:
        """f(x; w_0), (n, k)."""
        return self._call(self.start, self.x.clone())

    @cached_property
    def outputs_at_end(self) -> Tensor:
        """f(x; w_1), (n, k)."""
        return self._call(self.stop, self.x.clone()) if self.end is None else self.end

    def outputs(self, index: Tensor, t: Tensor) -> Tensor:
        """f(x[index]; w(t)), row by row: (e,), (e,) -> (e, k)."""
        if self.by_rows:
            return self._rows(self.start, index, t)
        return self._by_distinct_t(index, t, lambda rows, time: self._call(self.at(time), rows))

    def slopes(
        self, index: Tensor, t: Tensor, along: Parameters | None = None
    ) -> tuple[Tensor, Tensor]:
        """f(x[index]; w(t)) and J(x[index]; w(t)) v, (e, k) each; v by name, by default the step."""
        if not self.by_rows:
            both = self._by_distinct_t(index, t, partial(self._slopes_at, along or self.step))
            return both[:, 0], both[:, 1]
        with forward_mode.dual_level():
            if along is None:
                dual = forward_mode.make_dual(t, torch.ones_like(t))
                return _primal_and_tangent(self._rows(self.start, index, dual))
            start = {name: _dual(value, along.get(name)) for name, value in self.start.items()}
            return _primal_and_tangent(self._rows(start, index, t))

    def _slopes_at(self, along: Parameters, rows: Tensor, time: float) -> Tensor:
        with forward_mode.dual_level():
            dual = {name: _dual(value, along.get(name)) for name, value in self.at(time).items()}
            return torch.stack(_primal_and_tangent(self._call(dual, rows)), 1)

    def switches(self, index: Tensor, t: Tensor) -> tuple[Tensor, Tensor, Switches]:
        """Values and slopes along the step, and what decides between the pieces of kinked operations."""
        if not self.by_rows:
            return *self.slopes(index, t), self._switches_by_distinct_t(index, t)
        recorder = SwitchRecorder()
        with forward_mode.dual_level():
            dual = forward_mode.make_dual(t, torch.ones_like(t))
            values, slopes = _primal_and_tangent(self._rows(self.start, index, dual, recorder))
        return values, slopes, Switches.of(recorder.switches, len(t))

    def choices(self, index: Tensor, t: Tensor) -> Switches:
        """What decides between the pieces of kinked operations, as in `switches`."""
        if not self.by_rows:
            return self._switches_by_distinct_t(index, t)
        recorder = SwitchRecorder()
        self._rows(self.start, index, t, recorder)
        return Switches.of(recorder.switches, len(t))

    def _switches_by_distinct_t(self, index: Tensor, t: Tensor) -> Switches:
        def recorded(rows: Tensor, time: float) -> Tensor:
            with SwitchRecorder() as recorder:
                self._call(self.at(time), rows)
            parts = Switches.of(recorder.switches, len(rows)).parts
            shapes[:] = [part.shape[1:] for part in parts]
            return torch.cat([t.new_empty(len(rows), 0), *(part.flatten(1) for part in parts)], 1)

        shapes: list[torch.Size] = []
        flat = self._by_distinct_t(index, t, recorded)
        parts = flat.split([shape.numel() for shape in shapes], 1)
        return Switches(
            tuple(p.reshape(len(t), *shape) for p, shape in zip(parts, shapes, strict=True))
        )

    def _by_distinct_t(
        self, index: Tensor, t: Tensor, call: Callable[[Tensor, float], Tensor]
    ) -> Tensor:
        groups = groups_of(t)
        results = [call(self.x[index[rows]], time) for time, rows in groups]
        return torch.cat(results)[torch.cat([rows for _, rows in groups]).argsort()]

    def _rows(
        self,
        start: Parameters,
        index: Tensor,
        t: Tensor,
        recorder: SwitchRecorder | None = None,
    ) -> Tensor:
        with self.row_parameters(start, index, t, recorder) as mode:
            return self._call(start, mode.batch)

    def row_parameters(
        self,
        start: Parameters,
        index: Tensor,
        t: Tensor,
        recorder: SwitchRecorder | None = None,
    ) -> RowParameters:
        """The context in which `start` acts as start + t step; its `batch` is the input to give."""
        cache = self.first_layer if start is self.start else {}
        return RowParameters(start, self.step, t, Rows(self.x, index, cache), recorder)

    def _call(self, parameters: Mapping[str, Tensor], batch: Tensor) -> Tensor:
        return self.model.functional_call(parameters, batch).flatten(1)


def groups_of(t: Tensor) -> list[tuple[float, Tensor]]:
    """The distinct values of t (e,), and which rows have them."""
    distinct, which = t.unique(return_inverse=True)
    return [
        (time, torch.nonzero(which == k).squeeze(1)) for k, time in enumerate(distinct.tolist())
    ]


def _dual(value: Tensor, tangent: Tensor | None) -> Tensor:
    return value if tangent is None else forward_mode.make_dual(value, tangent)


def _primal_and_tangent(value: Tensor) -> tuple[Tensor, Tensor]:
    primal, tangent = forward_mode.unpack_dual(value)
    return primal, torch.zeros_like(primal) if tangent is None else tangent
