"""A square on which a person drags points or arrows, or clicks points together: controls for panels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from analytic.expressions.arguments import InputError
from notebooks.panels.picture import ON_DARK

Place = tuple[float, float]
COLOURS = ("#3465a4", "#b5394c", "#3a7d44", "#8a5fb0", "#c17d11", "#222222")


class Moves(Enum):
    """Along which axes handles move; the value has a flag for x and one for y."""

    FREELY = (True, True)
    SIDEWAYS = (True, False)
    UPRIGHT = (False, True)


class Mark(Enum):
    """What a handle looks like: a point, or the tip of an arrow from the origin."""

    POINT = False
    ARROW = True


@dataclass(frozen=True)
class Box:
    """A rectangle of data coordinates."""

    left: float
    right: float
    bottom: float
    top: float

    def __post_init__(self) -> None:
        sides = (self.left, self.right, self.bottom, self.top)
        if not all(map(math.isfinite, sides)) or self.left >= self.right or self.bottom >= self.top:
            raise InputError(
                f"a box needs finite sides with left < right and bottom < top, not {sides}."
            )

    @property
    def sides(self) -> tuple[Place, Place]:
        return (self.left, self.right), (self.bottom, self.top)

    def nearest(self, place: Sequence[float]) -> list[float]:
        """The place itself, or the nearest one inside."""
        ends = zip(place, self.sides, strict=True)
        return [min(max(float(v), low), high) for v, (low, high) in ends]


class Places(tuple):
    """Where the handles are, spelled shortly where a frame is labelled."""

    __slots__ = ()

    def __str__(self) -> str:
        return " ".join(f"({x:.3g}, {y:.3g})" for x, y, *_ in self)


class Pad(anywidget.AnyWidget):
    """The widget; its drawing and dragging are in pad.js, which goes to the page with the widget."""

    _esm = Path(__file__).with_name("pad.js")
    value = traitlets.List(traitlets.List(traitlets.CFloat())).tag(sync=True)
    limits = traitlets.List().tag(sync=True)
    box = traitlets.List().tag(sync=True)
    step = traitlets.Float().tag(sync=True)
    free = traitlets.List().tag(sync=True)
    arrows = traitlets.Bool().tag(sync=True)
    names = traitlets.List().tag(sync=True)
    colours = traitlets.List().tag(sync=True)
    on_dark = traitlets.List().tag(sync=True)  # the same colours as they are read there
    label = traitlets.Unicode().tag(sync=True)
    most = traitlets.Int(0).tag(sync=True)  # points; 0: handles, which stay

    @traitlets.validate("value")
    def _inside(self, proposal: dict[str, Any]) -> list[list[float]]:
        places = proposal["value"]
        if not all(math.isfinite(v) for place in places for v in place) or not self._fit(places):
            needed = (
                f"takes at most {self.most} points [x, y, kind] with kinds below {len(self.names)}"
                if self.most
                else f"has {len(self.names)} handles and needs as many finite pairs [x, y]"
            )
            raise InputError(f"{self.label} {needed}, not {places}.")
        (left, right), (bottom, top) = self.box
        box = Box(left, right, bottom, top)
        return [[*box.nearest(place[:2]), *place[2:]] for place in places]

    def _fit(self, places: Sequence[Sequence[float]]) -> bool:
        if not self.most:
            return len(places) == len(self.names) and all(len(place) == 2 for place in places)
        kinds = range(len(self.names))
        return len(places) <= self.most and all(len(p) == 3 and p[2] in kinds for p in places)


@dataclass(frozen=True)
class Handles:
    """Places in the plane that a person may drag."""

    name: str
    label: str
    start: Sequence[Place]
    limits: Box = Box(-2.0, 2.0, -2.0, 2.0)  # what the square shows
    box: Box | None = None  # where handles may go, if not everywhere in the square
    moves: Moves = Moves.FREELY
    mark: Mark = Mark.POINT
    step: float = 0.05
    names: tuple[str, ...] = ()  # beside the handles; numbers where there are none
    colours: tuple[str, ...] = COLOURS
    tour: tuple[Place, ...] = ()  # where the first handle goes in frames, if not along a line

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", Places((float(x), float(y)) for x, y in self.start))
        inside = all(self._room.nearest(place) == list(place) for place in self.start)
        if not self.start or not inside:
            raise InputError(f"{self.name} needs handles that start inside {self._room}.")
        if len(self._names) != len(self.start) or not self.colours:
            raise InputError(
                f"{self.name} has {len(self.start)} handles but {len(self._names)} names and "
                f"{len(self.colours)} colours: give one name each, and at least one colour."
            )
        if not self.step > 0:
            raise InputError(f"{self.name} needs a step above 0, not {self.step}.")

    @property
    def title(self) -> str:
        return self.label

    @property
    def _room(self) -> Box:
        return self.box or self.limits

    @property
    def _names(self) -> tuple[str, ...]:
        return self.names or tuple(str(k + 1) for k in range(len(self.start)))

    def widget(self) -> Pad:
        colours = [self.colours[k % len(self.colours)] for k in range(len(self.start))]
        return _pad(self, self._room, self._names, colours, self.moves, arrows=self.mark.value)

    def stops(self, most: int = 7) -> list[Places]:
        """Frames: the first handle along its tour, or across the box; the start is among them."""
        first = self.start[0]
        tour = list(self.tour) or self._across(most)
        return [
            Places((place, *self.start[1:]))
            for place in (tour if first in tour else [first, *tour])
        ]

    def _across(self, most: int) -> list[Place]:
        """Evenly spaced places along the first free axis through the first handle."""
        axis = self.moves.value.index(True)
        low, high = self._room.sides[axis]
        ticks = {low + (high - low) * k / (most - 1) for k in range(most)} | {self.start[0][axis]}
        other = self.start[0][1 - axis]
        return [(v, other) if axis == 0 else (other, v) for v in sorted(ticks)]


@dataclass(frozen=True)
class Points:
    """Points of several kinds, (x, y, kind), that a person adds by a click, drags, and takes away."""

    name: str
    label: str
    start: Sequence[tuple[float, float, int]]
    kinds: tuple[str, ...]  # what stands beside them
    colours: tuple[str, ...] = COLOURS  # by kind
    limits: Box = Box(-2.0, 2.0, -2.0, 2.0)
    step: float = 0.05
    most: int = 60

    def __post_init__(self) -> None:
        start = Places((float(x), float(y), int(kind)) for x, y, kind in self.start)
        object.__setattr__(self, "start", start)
        if not 0 < len(self.kinds) <= len(self.colours) or self.most < 1 or not self.step > 0:
            raise InputError(
                f"{self.name} needs a kind, a colour for each, most >= 1 and step > 0, not {self.kinds}, "
                f"{self.colours}, {self.most} and {self.step}."
            )
        if not all(self.limits.nearest(place) == list(place) for *place, _ in start):
            raise InputError(f"{self.name} needs points that start inside {self.limits}.")
        self.widget()  # which refuses other kinds, and too many

    @property
    def title(self) -> str:
        return self.label

    def widget(self) -> Pad:
        colours = self.colours[: len(self.kinds)]
        return _pad(self, self.limits, self.kinds, colours, Moves.FREELY, most=self.most)

    def stops(self) -> list[Places]:
        """Where no kernel runs nothing can be clicked, and the start is shown."""
        return [self.start]


def _pad(
    control: Handles | Points, box: Box, names: Sequence[str], colours: Sequence[str], moves: Moves,
    **traits: Any,
) -> Pad:  # fmt: skip
    """The widget of a control, whose handles stay in a box and move along the free axes."""
    return Pad(
        names=list(names),
        colours=list(colours),
        on_dark=[ON_DARK.get(colour, colour) for colour in colours],
        label=control.label,
        box=[list(side) for side in box.sides],
        limits=[list(side) for side in control.limits.sides],
        step=control.step,
        free=list(moves.value),
        value=[list(place) for place in control.start],
        **traits,
    )
