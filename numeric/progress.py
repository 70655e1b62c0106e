"""Progress bars, shown only where a person watches: in a terminal, or as a widget in an open notebook."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

from numeric.inputs import require_instance

__all__ = ["progress_bar"]

DELAY = 2.0  # seconds before a bar appears: short work needs none


def progress_bar(
    steps: Iterable[Any] | None = None,
    *,
    of: str,
    show: bool = True,
    total: int | float | None = None,
    initial: int | float = 0,
) -> tqdm:
    """A bar over `steps`, or one to be moved by hand, that is gone when the work is done.

    `of` names what is counted, as in "networks". Without a terminal or an open notebook nothing is
    written, and neither is it with show=False or the environment variable TQDM_DISABLE=1, which a run of
    notebooks without a person sets.

    >>> sum(progress_bar([1, 2, 3], of="numbers"))
    6
    """
    require_instance("progress", show, bool, "False")
    kind = tqdm
    if show and _in_notebook():
        from tqdm.notebook import tqdm as kind
    watched = kind is not tqdm or sys.stderr.isatty()
    silent = os.environ.get("TQDM_DISABLE", "0") not in ("", "0")
    return kind(
        steps,
        desc=of,
        total=total,
        initial=initial,
        leave=False,
        delay=DELAY,
        disable=silent or not (show and watched),
    )


def _in_notebook() -> bool:
    """Whether this process is a Jupyter kernel; asked of modules that are loaded, importing none."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")
