"""Figures of the five papers as statements: what each shows, whether it is seen here too, and where."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.resources import files

__all__ = ["Figure", "Outcome", "count_figures", "figures"]


class Outcome(Enum):
    """What became of a figure when it was made again, at the scale that its note names."""

    REPRODUCED = "reproduced"  # what the paper reads from it is seen here too
    NOT_SEEN = (
        "not seen at this scale"  # it is not, at a smaller one than the paper's, which may be why
    )
    REFUTED = (
        "refuted"  # it is not so, whatever the scale, or in networks as large on data as theirs
    )
    NOT_TRIED = "not tried"  # for the reason in the note


@dataclass(frozen=True)
class Figure:
    """One figure, or consecutive ones of which the same is said."""

    id: str  # paper/figure-number, permanent, or paper/figure-first-last
    shows: str  # what the paper reads from it
    outcome: Outcome
    notebook: str = ""  # such as 17_digits
    section: str = ""  # the heading there, as it stands
    note: str = ""  # scale, differences, or the reason

    @property
    def paper(self) -> str:
        return self.id.partition("/")[0]

    @property
    def numbers(self) -> tuple[str, ...]:
        """The figures that the entry covers: G.15-G.17 are three."""
        name = self.id.partition("/figure-")[2]
        span = re.fullmatch(r"(.*?)(\d+)-(.*?)(\d+)", name)
        if not span or span[1] != span[3]:
            return (name,)
        return tuple(f"{span[1]}{k}" for k in range(int(span[2]), int(span[4]) + 1))


@cache
def figures() -> tuple[Figure, ...]:
    """All figures of the papers, in order."""
    text = files("analytic.ledger").joinpath("statements", "figures.toml").read_text("utf-8")
    return tuple(
        Figure(**row | {"outcome": Outcome(row["outcome"])})
        for row in tomllib.loads(text)["figure"]
    )


def count_figures() -> Counter[Outcome]:
    """The number of figures, by outcome."""
    tally: Counter[Outcome] = Counter()
    for figure in figures():
        tally[figure.outcome] += len(figure.numbers)
    return tally
