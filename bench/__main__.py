"""Runs every benchmark and prints its ratios with the machine they were measured on."""

import os
import platform

from bench import (
    catalogue,
    geometry,
    gram,
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
    imports, catalogue, geometry, log_volume, gram, tangents, learned, splines, relu, path_recording,
    path_kernel, sliders,
)  # fmt: skip


def main() -> None:
    machine = platform.processor() or platform.machine()
    print(f"{machine}, {os.cpu_count()} cores, Python {platform.python_version()}")
    for benchmark in BENCHMARKS:
        print(f"\n{benchmark.__doc__.splitlines()[0]}")
        for line in benchmark.run():
            print(f"  {line}")


if __name__ == "__main__":
    main()
