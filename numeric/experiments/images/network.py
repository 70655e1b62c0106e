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
    except (Exception, SystemExit) as error:  # a user's module may raise anything
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
    except (Exception, SystemExit) as error:  # so may a user's factory
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

    Refused are a network that returns several outputs if none is named, names of none, outputs that are no
    tensors, and maps of features in the place of classes.
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
        return _require_classes(network, result)
    if isinstance(result, Mapping):
        outputs: dict[str, tuple[int | str, Any]] = {str(k): (k, v) for k, v in result.items()}
    elif isinstance(result, tuple | list):
        outputs = {str(k): (k, value) for k, value in enumerate(result)}
    else:
        raise InputError(
            f"The network returns a {type(result).__name__}, but a tensor is needed: wrap it in a module "
            "that returns one."
        )
    if output not in outputs:
        choice = "none was named" if output is None else f"--output {output} was given"
        raise InputError(
            f"The network returns a {type(result).__name__} of {', '.join(outputs)}, but {choice}: name one "
            f"by --output {next(iter(outputs), 'NAME')}."
        )
    key, value = outputs[output]
    if not isinstance(value, Tensor):
        tensors = [name for name, (_, other) in outputs.items() if isinstance(other, Tensor)]
        kind = "None" if value is None else f"a {type(value).__name__}"
        raise InputError(
            f"--output {output} was given, but this output of the network is {kind}, and a tensor is needed: "
            f"name another output ({', '.join(tensors) or 'there is none that is a tensor'})."
        )
    return _require_classes(PickedOutput(network, key), value)


def _require_classes(classifier: nn.Module, result: Tensor) -> nn.Module:
    """Maps of features are refused: every pixel of them would count as a class."""
    if result.ndim > 2 and result.shape[1:].numel() != result.shape[1]:
        shape = ", ".join(map(str, result.shape[1:]))
        raise InputError(
            f"The network predicts by a tensor of shape (n, {shape}), but one "
            "number for each class is needed, as (n, classes): name another output by --output, or a factory "
            "that adds a pooling head, and measure this one by --layer."
        )
    return classifier


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or ["no reason given"])[0].rstrip(".")
