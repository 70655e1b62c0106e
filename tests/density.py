"""Grids that `make sweep` runs whole, and `make test` in part."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

sweep = pytest.mark.sweep
some_and_all = pytest.mark.parametrize(
    "dense", [pytest.param(False, id="some"), pytest.param(True, id="all", marks=sweep)]
)


def thinned(values: Iterable[Any], every: int, id: Callable[[Any], str] = str) -> list[Any]:
    """Parameters of a test, of which all but the first of `every` so many wait for `make sweep`."""
    return [
        pytest.param(value, id=id(value), marks=[sweep] if place % every else [])
        for place, value in enumerate(values)
    ]
