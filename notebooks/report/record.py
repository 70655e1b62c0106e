"""What a run was and found, written beside its outputs: parameters, numbers, verdict, versions, time."""

from __future__ import annotations

import json
import math
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "kernel-geometry", "sympy", "mpmath", "numpy", "scipy", "torch", "matplotlib", "ipywidgets",
    "papermill",
)  # fmt: skip


@dataclass(frozen=True)
class Commit:
    """The state of the sources; no hash outside git."""

    hash: str | None
    dirty: bool | None

    @classmethod
    def here(cls) -> Self:
        head = _git("rev-parse", "HEAD")
        if head is None:
            return cls(None, None)
        return cls(head, bool(_git("status", "--porcelain")))

    def __str__(self) -> str:
        if self.hash is None:
            return "no commit"
        return self.hash[:10] + (" with changes" if self.dirty else "")


def _git(*words: str) -> str | None:
    command = ("git", "--no-optional-locks", "-C", str(ROOT), *words)
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


@dataclass(frozen=True)
class Record:
    """One executed notebook; `parameters` holds every parameter, defaults too."""

    notebook: str
    parameters: dict[str, Any]
    commit: Commit
    versions: dict[str, str]
    started: str  # ISO 8601, UTC
    finished: str
    seconds: float
    profile: str | None = None
    seed: Any = None
    device: str | None = None
    source: str | None = None  # digest of the notebook's file
    numbers: dict[str, Any] = field(default_factory=dict)
    verdict: str | None = None  # as printed

    @classmethod
    def of(
        cls,
        notebook: str,
        parameters: Mapping[str, Any],
        commit: Commit,
        started: datetime,
        source: str | None = None,
        numbers: Mapping[str, Any] | None = None,
        verdict: str | None = None,
    ) -> Self:
        """The record of a notebook that ends now."""
        finished = datetime.now(UTC)
        return cls(
            notebook,
            dict(parameters),
            commit,
            _versions(),
            started.isoformat(timespec="seconds"),
            finished.isoformat(timespec="seconds"),
            round((finished - started).total_seconds(), 3),
            *(parameters.get(name) for name in ("profile", "seed", "device")),
            source,
            dict(numbers or {}),
            verdict,
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        data = json.loads(path.read_text("utf-8"))
        return cls(**data | {"commit": Commit(**data["commit"])})

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(plain(asdict(self)), indent=2) + "\n", "utf-8")

    def __str__(self) -> str:
        parts = [str(self.commit), f"{self.finished[:16].replace('T', ' ')} UTC"]
        parts.append(f"{self.seconds:.1f} s")
        return ", ".join([*parts, f"profile {self.profile}"] if self.profile else parts)


def plain(value: Any) -> Any:
    """What JSON can hold: lists for tuples, text for what it has no form for, infinite numbers too."""
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | None) else str(value)


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
