"""Start-up: what `import analytic` and one evaluation on the command line cost."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

EVAL = [
    "-m",
    "analytic",
    "eval",
    "nngp.erf.ricci",
    "d=3",
    "sigma=1",
    "zeta=0.5",
    "r=2",
    "--digits",
    "30",
]


def run(repeats: int = 5) -> Iterator[str]:
    sympy, ours, evaluation = (
        min(_seconds(arguments) for _ in range(repeats))
        for arguments in (["-c", "import sympy"], ["-c", "import analytic"], EVAL)
    )
    yield f"import analytic: {ours:.2f} s, {ours / sympy:.2f} times `import sympy` ({sympy:.2f} s)"
    yield f"python -m analytic eval nngp.erf.ricci: {evaluation:.2f} s, {evaluation / sympy:.2f} times it"


def _seconds(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - start
