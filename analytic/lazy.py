"""Names that a package offers and imports only when they are first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["names"]


def names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose names live in the modules `homes`.

    A home that ends in the name itself is a module; else the name is an attribute of its home.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        home = homes[name]
        is_module = home.rpartition(".")[2] == name
        value = import_module(home) if is_module else getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*homes, *vars(sys.modules[package])["__all__"]})

    return get, listed, sorted(homes)
