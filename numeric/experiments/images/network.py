"""A network of one's own, named on a command line: made by a factory, with one of its outputs picked."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from numeric.inputs import InputError
from numeric.models.model import evaluation_mode

__all__ = ["PickedOutput", "build", "picked"]


def build(name: str) -> nn.Module:
    """The network that a factory makes, named as "module:factory"; a module of torch may stand in its place.

    Refused are modules that cannot be imported, names that they lack, factories that need arguments, and
    what they return if it is no torch.nn.Module.

    >>> type(build("numeric.models:resnet20")).__name__
    'ResNet'
    """
    module_name, colon, factory_name = name.partition(":")
    if not (colon and module_name and factory_name):
        raise InputError(
            f"--model {name} was given, but MODULE:FACTORY is needed, such as numeric.models:resnet20."
        )
    try:
        module = import_module(module_name)
    except Exception as error:  # a user's module may raise anything
        raise InputError(
            f"The module {module_name} cannot be imported ({type(error).__name__}: {_line(error)}): give one "
            "that is installed, or in this folder."
        ) from None
    factory: Any = module
    for part in factory_name.split("."):
        if not hasattr(factory, part):
            raise InputError(f"The module {module_name} has no {factory_name}: check the name.")
        factory = getattr(factory, part)
    if isinstance(factory, nn.Module):
        return factory
    if not callable(factory):
        raise InputError(f"{name} is no function, but a {type(factory).__name__}: name a factory.")
    _require_no_arguments(name, factory)
    try:
        network = factory()
    except Exception as error:  # so may a user's factory
        raise InputError(
            f"{name} fails ({type(error).__name__}: {_line(error)}): try it in Python first."
        ) from None
    if not isinstance(network, nn.Module):
        raise InputError(
            f"{name} returns a {type(network).__name__}, but a torch.nn.Module is needed."
        )
    return network


def _require_no_arguments(name: str, factory: Any) -> None:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # some builtins tell nothing
        return
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in kinds]
    if needed:
        raise InputError(
            f"{name} needs arguments ({', '.join(needed)}), but a factory is called without: write a "
            f"function that returns {name.partition(':')[2]}(...) with them, and name that."
        )


class PickedOutput(nn.Module):
    """One of the outputs of a network that returns a tuple or a dictionary."""

    def __init__(self, network: nn.Module, key: int | str) -> None:
        super().__init__()
        self.network, self.key = network, key

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)[self.key]


def picked(network: nn.Module, x: Tensor, output: str | None) -> nn.Module:
    """The network itself, or with one of its outputs picked: `output` is a key, or a place from 0 on.

    Refused are a network that returns several outputs if none is named, and names of none.
    """
    with torch.no_grad(), evaluation_mode(network):
        try:
            result = network(x[:1])
        except Exception as error:  # a user's network may raise anything
            raise InputError(
                f"The network fails on an image of shape {tuple(x.shape[1:])} ({_line(error)}): give images "
                "of the size and channels that it was made for."
            ) from None
    if isinstance(result, Tensor):
        if output is not None:
            raise InputError(
                f"--output {output} was given, but the network returns a single tensor: leave it out."
            )
        return network
    if isinstance(result, Mapping):
        keys: dict[str, int | str] = {str(key): key for key in result}
    elif isinstance(result, tuple | list):
        keys = {str(k): k for k in range(len(result))}
    else:
        raise InputError(
            f"The network returns a {type(result).__name__}, but a tensor is needed: wrap it in a module "
            "that returns one."
        )
    if output not in keys:
        choice = "none was named" if output is None else f"--output {output} was given"
        raise InputError(
            f"The network returns a {type(result).__name__} of {', '.join(keys)}, but {choice}: name one by "
            f"--output {next(iter(keys), 'NAME')}."
        )
    return PickedOutput(network, keys[output])


def _line(error: Exception) -> str:
    return (str(error).splitlines() or ["no reason given"])[0].rstrip(".")
