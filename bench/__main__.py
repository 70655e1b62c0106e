"""Measures, prints ratios, and writes them to BENCHMARKS.md with the machine: `python -m bench [name ...]`.

Each benchmark is a section, written as soon as it is measured; with names only these are measured anew.
"""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

from bench import (
    catalogue,
    convolution,
    flows,
    geometry,
    gram,
    images,
    imports,
    learned,
    log_volume,
    path_kernel,
    path_recording,
    relu,
    sliders,
    splines,
    tangents,
)

BENCHMARKS = (
    imports, catalogue, geometry, log_volume, images, gram, convolution, tangents, learned, splines, relu,
    path_recording, path_kernel, flows, sliders,
)  # fmt: skip
PAGE = Path(__file__).parents[1] / "BENCHMARKS.md"
INTRODUCTION = Path(__file__).with_name("introduction.md")


def main(names: Sequence[str]) -> int:
    """Zero, or 2 where a name is none of a benchmark."""
    by_name = {module.__name__.removeprefix("bench."): module for module in BENCHMARKS}
    if unknown := [name for name in names if name not in by_name]:
        print(
            f"No benchmark is called {unknown[0]!r}; there are {', '.join(by_name)}.",
            file=sys.stderr,
        )
        return 2
    if len(names) != 1:  # each in a process of its own, as a peak of memory is that of a process
        jobs = ([sys.executable, "-m", "bench", name] for name in names or by_name)
        return max(subprocess.run(job, check=False).returncode for job in jobs)
    write(by_name[names[0]])
    print(f"\nwritten to {PAGE}", file=sys.stderr)
    return 0


def write(benchmark: ModuleType) -> None:
    """Measure it, and put its section into the page among the others."""
    print(f"\n{title(benchmark)}")
    lines = [f"Measured on {machine()}, {datetime.now(UTC):%Y-%m-%d}.", ""]
    for line in benchmark.run():
        print(f"  {line}", flush=True)
        lines.append(f"- {line}")
    sections = measured(PAGE.read_text("utf-8")) if PAGE.exists() else {}
    sections[title(benchmark)] = "\n".join(lines)
    known = {one: sections[one] for one in map(title, BENCHMARKS) if one in sections}
    PAGE.write_text(page(known), "utf-8")


def title(benchmark: ModuleType) -> str:
    return (benchmark.__doc__ or benchmark.__name__).splitlines()[0].rstrip(".")


def machine() -> str:
    name = _model() or platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}"


def _model() -> str:
    """The processor's own name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return ""
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), ""
    )


def measured(page: str) -> dict[str, str]:
    """The sections of a page that was written before, by title."""
    parts = re.split(r"^### (.*)\n\n", page, flags=re.M)[1:]
    return {title: text.strip() for title, text in zip(parts[::2], parts[1::2], strict=True)}


def page(sections: Mapping[str, str]) -> str:
    """The whole page: an introduction, and a section for each benchmark."""
    parts = [INTRODUCTION.read_text("utf-8"), "## Speed\n"]
    return "\n".join([*parts, *(f"### {title}\n\n{text}\n" for title, text in sections.items())])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
