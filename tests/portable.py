"""Runs the numerical tests as other processors would: `make portable`.

Libraries choose their code by the processor they meet, and round differently in each. One machine can
imitate older ones by telling each library to stay below what it finds. A test that fails here and passes
in `make test` hangs on the last bit of one processor.
"""

import os
import subprocess
import sys
from collections.abc import Mapping

from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

CORES = 2
FEATURES = " ".join(name for name in __cpu_dispatch__ if __cpu_features__[name])
PROCESSORS: Mapping[str, Mapping[str, str]] = {
    "no vector instructions": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "COMPATIBLE",
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": FEATURES,
        "OMP_NUM_THREADS": "1",
    },
    "AVX2 with two threads": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_CBWR": "SSE4_2",
        "OPENBLAS_CORETYPE": "Haswell",
        "OMP_NUM_THREADS": "2",
        "OMP_WAIT_POLICY": "passive",  # threads that spin while they wait hardly move on a busy machine
    },
    "each library another": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "SSE4_2",
        "OPENBLAS_CORETYPE": "Haswell",
        "OMP_NUM_THREADS": "1",
    },
}
EXACT = (  # no floats of a processor: integers and mpmath, or a browser
    "browser", "test_catalogue_claims.py", "test_claims.py", "test_lab.py", "test_ledger.py",
    "test_report.py", "test_rooms.py", "test_runner.py",
)  # fmt: skip


def main(arguments: list[str]) -> int:
    """Zero if all pass under every processor; arguments go to pytest, as `-k relu`."""
    ignored = [f"--ignore=tests/{name}" for name in EXACT]
    command = [sys.executable, "-m", "pytest", "--dist", "worksteal", *ignored, *arguments]
    failed = []
    for name, settings in PROCESSORS.items():
        print(f"\n== {name}: {' '.join(f'{k}={v!r}' for k, v in settings.items())}", flush=True)
        workers = ["-n", str(CORES // int(settings["OMP_NUM_THREADS"]))]
        if subprocess.run(command + workers, env=os.environ | settings).returncode:
            failed.append(name)
    print(f"\nfailed with {' and '.join(failed)}" if failed else "\npassed on every processor")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
