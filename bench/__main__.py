"""Runs every benchmark, prints its ratios, and writes them to BENCHMARKS.md with the machine."""

import os
import platform
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

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


def main() -> None:
    sections = []
    print(machine())
    for benchmark in BENCHMARKS:
        title = (benchmark.__doc__ or benchmark.__name__).splitlines()[0]
        print(f"\n{title}")
        sections.append((title, list(_printed(benchmark.run()))))
    PAGE.write_text(page(sections), "utf-8")
    print(f"\nwritten to {PAGE}", file=sys.stderr)


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


def page(sections: Iterable[tuple[str, list[str]]]) -> str:
    """The page: where and when it was measured, and a section for each benchmark."""
    parts = [
        INTRODUCTION.read_text("utf-8"),
        f"## Speed\n\nMeasured on {machine()}, {datetime.now(UTC):%Y-%m-%d}.\n",
    ]
    for title, lines in sections:
        parts.append(
            "\n".join([f"### {title.rstrip('.')}", "", *(f"- {line}" for line in lines), ""])
        )
    return "\n".join(parts)


def _printed(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        print(f"  {line}", flush=True)
        yield line


if __name__ == "__main__":
    main()
