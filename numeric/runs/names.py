"""Names of functions that are the same in every process, for the keys of stored runs."""

from __future__ import annotations

from functools import partial
from types import MethodType, ModuleType
from typing import Any

__all__ = ["qualified_name"]


def qualified_name(function: Any) -> str:
    """The module and name of a function, in place of its `repr`, which has an address in memory.

    function: anything that can be called. A partial is named with its arguments, a bound method with the
    object that it belongs to, and an object by its `repr`; None is "None". Functions without names of their
    own, such as two lambdas of one module, are not told apart. Returned is a text.

    >>> from torch.nn.functional import cross_entropy
    >>> qualified_name(cross_entropy), qualified_name((1.5).hex)
    ('torch.nn.functional.cross_entropy', '1.5.hex')
    >>> qualified_name(partial(cross_entropy, label_smoothing=0.1))
    'partial(torch.nn.functional.cross_entropy, label_smoothing=0.1)'
    """
    if isinstance(function, partial):
        arguments = [
            *map(_value, function.args),
            *(f"{name}={_value(value)}" for name, value in function.keywords.items()),
        ]
        return f"partial({', '.join([qualified_name(function.func), *arguments])})"
    if (owner := _owner(function)) is not None:
        return f"{_value(owner)}.{function.__name__}"
    if (name := getattr(function, "__qualname__", None)) is None:
        return repr(function)
    module = getattr(function, "__module__", None)
    return name if module is None else f"{module}.{name}"


def _owner(function: Any) -> Any:
    """What a bound method belongs to; a function written in C is bound to its module, which is none."""
    owner = getattr(function, "__self__", None)
    bound = isinstance(function, MethodType) or type(function) is type(print)
    return owner if bound and not isinstance(owner, ModuleType) else None


def _value(value: Any) -> str:
    return qualified_name(value) if callable(value) else repr(value)
