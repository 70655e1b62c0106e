"""Where units cross a kink on parts of a segment of weights, and the parts divided there."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.path_kernel.bracketed_roots import bracketed_roots
from numeric.path_kernel.gauss_legendre import to_bernstein
from numeric.path_kernel.kinks import Switches
from numeric.path_kernel.segments import Segment

__all__ = ["Crossings", "Parts", "divided", "find_crossings", "halves", "may_cross_twice"]

CLOSE = 2.0**-46  # to the end of a part: a crossing there is the one that made the end
SUSPECT = 1e-9  # of a unit's values, by which a Bernstein coefficient must be beyond the kink
LINE = 64  # roundings by which values on a line may be off it


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts [left, right] of the segments of points, and the units whose crossing made their ends, or -1."""

    index: Tensor
    left: Tensor
    right: Tensor
    left_unit: Tensor
    right_unit: Tensor
    last_defect: Tensor  # with half of the nodes; infinite if there was none

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: Tensor) -> Parts:
        return Parts(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    @staticmethod
    def cat(parts: list[Parts]) -> Parts:
        fields = Parts.__dataclass_fields__
        return Parts(*(torch.cat([getattr(part, name) for part in parts]) for name in fields))


@dataclass(frozen=True, eq=False)
class Crossings:
    """Kinks that units cross within parts, sorted by part and t; (r,) each."""

    part: Tensor
    t: Tensor
    unit: Tensor


def find_crossings(
    segment: Segment, parts: Parts, t: Tensor, switches: Switches
) -> Crossings | None:
    """Where the choices at places t (parts, q) change from one to the next, and by which unit."""
    q = t.shape[1]
    part, place, unit, before, after = _changes(parts, switches, *t.shape)
    if not len(part):
        return None
    a, b = t[part, place], t[part, place + 1]
    at_a = switches.margins(part * q + place, unit, before, after)
    at_b = switches.margins(part * q + place + 1, unit, before, after)
    true = (at_a > 0) & (at_b < 0)  # ties, as of a window of zeros, are another unit's crossing
    if not true.any():
        return None
    part, unit, before, after, a, b, at_a, at_b = (
        v[true] for v in (part, unit, before, after, a, b, at_a, at_b)
    )
    point = parts.index[part]

    def margins(rows: Tensor, times: Tensor) -> Tensor:
        choices = segment.choices(point[rows], times)
        numbers = torch.arange(len(times), device=times.device)
        return choices.margins(numbers, unit[rows], before[rows], after[rows])

    # A unit of the first layer moves on a line, and the secant is its root.
    root = torch.lerp(a, b, at_a / (at_a - at_b))
    curved = torch.nonzero(~_on_a_line(t, switches, part, unit, before, after)).squeeze(1)
    if len(curved):
        root[curved] = bracketed_roots(
            lambda rows, times: margins(curved[rows], times),
            a[curved], b[curved], at_a[curved], at_b[curved],
        )  # fmt: skip
    left, right = parts.left[part], parts.right[part]
    inside = (root - left > CLOSE) & (right - root > CLOSE)
    if not inside.any():
        return None
    part, root, unit = part[inside], root[inside], unit[inside]
    order = root.argsort(stable=True)
    order = order[part[order].argsort(stable=True)]
    return Crossings(part[order], root[order], unit[order])


def _on_a_line(
    t: Tensor, switches: Switches, part: Tensor, unit: Tensor, before: Tensor, after: Tensor
) -> Tensor:
    """Whether a unit's margins at all places of a part lie on a line, to rounding: (r,)."""
    q = t.shape[1]
    places = torch.arange(q, device=t.device)
    rows = (part[:, None] * q + places).flatten()
    repeated = (v.repeat_interleave(q) for v in (unit, before, after))
    values = switches.margins(rows, *repeated).unflatten(0, (-1, q))
    share = (t[part] - t[part, :1]) / (t[part, -1:] - t[part, :1])
    line = torch.lerp(values[:, :1], values[:, -1:], share)
    rounding = torch.finfo(t.dtype).eps * values.abs().amax(1)
    return (values - line).abs().amax(1) <= LINE * rounding


def _changes(parts: Parts, switches: Switches, p: int, q: int) -> tuple[Tensor, ...]:
    """Changes of choice from one place to the next: part, place, unit, choice before and after, (r,) each."""
    states = switches.states().unflatten(0, (p, q))
    # At its own crossing a unit is on neither side: there it counts as where the part's inner nodes are.
    numbers = torch.arange(p, device=states.device)
    for unit, end, inner in ((parts.left_unit, 0, 1), (parts.right_unit, -1, -2)):
        own = unit >= 0
        states[numbers[own], end, unit[own]] = states[numbers[own], inner, unit[own]]
    part, place, unit = torch.nonzero(states[:, 1:] != states[:, :-1], as_tuple=True)
    return part, place, unit, states[part, place, unit], states[part, place + 1, unit]


def may_cross_twice(t: Tensor, switches: Switches) -> Tensor:
    """Parts where a unit may cross a kink and come back between two places t (p, q): (p,).

    The polynomial through a unit's values has no root if its Bernstein coefficients have one sign.
    """
    p, q = t.shape
    suspect = torch.zeros(p, dtype=torch.bool, device=t.device)
    matrix = to_bernstein(q - 2, t)
    for values in switches.parts:
        if values.shape[2] > 1:  # windows are left to the certificate
            continue
        margin = values[:, :, 0].unflatten(0, (p, q))
        least, most = margin.aminmax(dim=1)
        # Near its kink, for how much it moves, but not on it and not across it, which has been seen to.
        size = torch.maximum(least.abs(), most.abs())
        near = (most - least) > torch.minimum(least.abs(), most.abs())
        near &= (least > SUSPECT * size) | (most < -SUSPECT * size)
        which, unit = near.nonzero(as_tuple=True)
        if len(which):
            sizes = margin[which, :, unit].abs()  # (r, q)
            beyond = (sizes @ matrix.T).amin(1) < -SUSPECT * size[which, unit]
            suspect[which[beyond]] = True
    return suspect


def divided(parts: Parts, crossings: Crossings) -> Parts:
    """Parts cut at crossings, of which those that are close together count as one."""
    part, t, unit = crossings.part, crossings.t, crossings.unit
    first = torch.ones_like(part, dtype=torch.bool)
    first[1:] = (part[1:] != part[:-1]) | (t[1:] - t[:-1] > CLOSE)
    part, t, unit = part[first], t[first], unit[first]
    starts = torch.ones_like(part, dtype=torch.bool)
    starts[1:] = part[1:] != part[:-1]
    ends = torch.ones_like(starts)
    ends[:-1] = starts[1:]
    left, left_unit = t.roll(1), unit.roll(1)
    left[starts], left_unit[starts] = parts.left[part[starts]], parts.left_unit[part[starts]]
    fresh = torch.full_like(t, torch.inf)
    before = Parts(parts.index[part], left, t, left_unit, unit, fresh)
    last = part[ends]
    behind = Parts(
        parts.index[last],
        t[ends],
        parts.right[last],
        unit[ends],
        parts.right_unit[last],
        fresh[ends],
    )
    return Parts.cat([before, behind])


def halves(parts: Parts) -> Parts:
    """Both halves of each part."""
    middle = (parts.left + parts.right) / 2
    no_unit, fresh = torch.full_like(parts.index, -1), torch.full_like(middle, torch.inf)
    return Parts.cat([
        Parts(parts.index, parts.left, middle, parts.left_unit, no_unit, fresh),
        Parts(parts.index, middle, parts.right, no_unit, parts.right_unit, fresh),
    ])  # fmt: skip
