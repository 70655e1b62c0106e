"""Ledger entries, read from one TOML file for each paper."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.resources import files

__all__ = ["LEDGERS", "OWN", "PAPERS", "Entry", "Paper", "Verdict", "load"]


class Verdict(Enum):
    """The outcome of checking a statement."""

    DEFINITION = "definition"  # nothing to check
    HOLDS = "holds"
    ERRATUM = "erratum"  # false as printed; the corrected form holds
    RESTORED = "restored"  # the text at hand is damaged; the restored form holds
    OPEN = "open"

    @property
    def claims(self) -> bool:
        """Whether the verdict says that something was checked."""
        return self in (Verdict.HOLDS, Verdict.ERRATUM, Verdict.RESTORED)


@dataclass(frozen=True)
class Entry:
    """One numbered statement, or the consecutive steps of one derivation."""

    id: str  # paper/number, permanent
    section: str
    printed: str  # LaTeX, as the paper has it, or as we state it
    verdict: Verdict
    corrected: str = ""  # LaTeX, for an erratum
    damaged: str = ""  # the part of the text at hand that could not be read
    note: str = ""  # the reason for the verdict, in a sentence
    code: tuple[str, ...] = ()  # catalogue names or module paths

    @property
    def number(self) -> str:
        return self.id.partition("/")[2]

    @property
    def equations(self) -> tuple[str, ...]:
        """The numbers that the entry covers: C.5-C.7 are three."""
        span = re.fullmatch(r"(.*?)(\d+)-(.*?)(\d+)", self.number)
        if not span or span[1] != span[3]:  # lemma-3 is one statement, not a span
            return (self.number,)
        return tuple(f"{span[1]}{k}" for k in range(int(span[2]), int(span[4]) + 1))


@dataclass(frozen=True)
class Paper:
    """A paper and its entries in order of appearance."""

    name: str
    authors: str
    title: str
    entries: tuple[Entry, ...]
    note: str = ""


PAPERS = (
    "curvature", "univariate-relu", "exact-path-kernel", "output-space-flow", "equivariant-ntk",
)  # fmt: skip
OWN = "beyond"  # statements of our own, which none of the papers prints
LEDGERS = (*PAPERS, OWN)


@cache
def load(name: str) -> Paper:
    """The ledger of one paper, or of our own statements."""
    text = files("analytic.ledger").joinpath("statements", f"{name}.toml").read_text("utf-8")
    data = tomllib.loads(text)
    entries = tuple(
        Entry(**row | {"verdict": Verdict(row["verdict"]), "code": tuple(row.get("code", ()))})
        for row in data["entry"]
    )
    return Paper(data["paper"], data["authors"], data["title"], entries, data.get("note", ""))
