"""Weights of a network in a file, with the normalisation of its images: safetensors, or torch.load's own.

A file of safetensors holds tensors and texts only, so that reading it executes nothing; it is what is
written. Other files are opened by torch.load with weights_only=True, which refuses all but tensors and plain
containers.
"""

from __future__ import annotations

import json
import os
import pickle
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from numeric.data import Normalisation
from numeric.inputs import (
    InputError,
    as_path,
    require_instance,
    require_writable,
    shown,
)

__all__ = ["Weights"]

WRAPPER, PREFIX = "state_dict", "module."  # as training scripts and torch's DataParallel leave them
NORMALISATION = "normalisation"  # the name under which it stands in a file
COUNTERS = (
    "num_batches_tracked"  # of batch normalisation: old files lack them, and nothing uses them
)
MISMATCHES = 3  # named in a refusal
LONGEST_HEAD = 100_000_000  # bytes, that safetensors allows

Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True, eq=False)
class Weights:
    """Tensors by the names of a network, the normalisation of its images if known, and how they were read."""

    tensors: Mapping[str, Tensor] = field(repr=False)
    normalisation: Normalisation | None = None
    notes: tuple[str, ...] = ()  # one sentence for each thing that was done to the file's content

    @classmethod
    def of(cls, network: nn.Module, normalisation: Normalisation | None = None) -> Weights:
        """A copy of a network's parameters and buffers, with the normalisation of its images.

        >>> Weights.of(nn.Linear(2, 1)).tensors["weight"].shape
        torch.Size([1, 2])
        """
        require_instance("network", network, nn.Module, "models.resnet20()")
        if normalisation is not None:
            require_instance(NORMALISATION, normalisation, Normalisation, "data.normalisation")
        state = network.state_dict().items()
        return cls(
            {name: value.detach().cpu().clone().contiguous() for name, value in state},
            normalisation,
        )

    @classmethod
    def read(cls, path: str | Path) -> Weights:
        """From a file of safetensors, or one that torch.load reads with weights_only=True.

        A dictionary {"state_dict": ...} is unwrapped, and "module." before all names is taken off; `notes`
        say so. A normalisation is taken from the file's metadata, or from beside "state_dict". Refused are
        files that cannot be read, are damaged, or hold anything but tensors by name.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     Weights.of(nn.Linear(2, 1), Normalisation.identity(1)).write(f"{folder}/w.safetensors")
        ...     Weights.read(f"{folder}/w.safetensors").normalisation
        Normalisation(mean=(0.0,), std=(1.0,))
        """
        path = as_path(path)
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "does not exist"
            raise InputError(f"The checkpoint {path} {what}: give the file with the weights.")
        try:
            if _is_safetensors(path):
                return _read_safetensors(path)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of a pickle's protocol
                content = torch.load(path, map_location="cpu", weights_only=True)
        except PermissionError:
            raise InputError(f"{path} may not be read: change its permissions.") from None
        except pickle.UnpicklingError as error:
            raise InputError(
                f"{path} was not opened, since it holds more than tensors ({_reason(error)}): save "
                "model.state_dict() in it, at best by safetensors."
            ) from None
        except InputError:
            raise
        except Exception as error:  # damaged bytes raise almost anything
            raise InputError(
                f"{path} is no checkpoint, or cut short or damaged ({type(error).__name__}): fetch or write "
                "it anew."
            ) from None
        return _unwrapped(path, content)

    def write(self, path: str | Path) -> None:
        """Write safetensors, atomically: an interrupted writer leaves the previous file intact."""
        path = require_writable(path)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        texts = {} if self.normalisation is None else {NORMALISATION: self.normalisation.to_text()}
        try:
            save_file(dict(self.tensors), part, texts)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def into(self, network: Network) -> Network:
        """Load the weights into a network, which is returned.

        Refused, and the network left as it was, are names and shapes that do not fit, of which the first
        three are named, and weights that are NaN or infinite.
        """
        require_instance("network", network, nn.Module, "models.resnet20()")
        wanted = network.state_dict()
        wrong = list(self._mismatches(wanted))
        if wrong:
            more = f"; and {len(wrong) - MISMATCHES} more" if len(wrong) > MISMATCHES else ""
            first = "; ".join(wrong[:MISMATCHES])
            raise InputError(
                f"The checkpoint does not fit {type(network).__name__}: {first}{more}. Give the network that "
                "was trained."
            )
        for name, value in self.tensors.items():
            if not value.isfinite().all():
                raise InputError(f"The checkpoint has NaN or infinity in {name}: take another one.")
        network.load_state_dict({**wanted, **self.tensors})
        return network

    def _mismatches(self, wanted: Mapping[str, Tensor]) -> Iterator[str]:
        for name, value in wanted.items():
            if name not in self.tensors:
                if not name.endswith(COUNTERS):
                    yield f"{name} {tuple(value.shape)} is missing in it"
            elif self.tensors[name].shape != value.shape:
                there = tuple(self.tensors[name].shape)
                yield f"{name} has shape {there} in it and {tuple(value.shape)} in the model"
        for name, value in self.tensors.items():
            if name not in wanted:
                yield f"{name} {tuple(value.shape)} is in it and not in the model"


def _is_safetensors(path: Path) -> bool:
    """Whether a file opens with the length of a head in JSON, and the head."""
    if path.suffix == ".safetensors":
        return True
    with path.open("rb") as file:
        start = file.read(9)
    return start[8:] == b"{" and int.from_bytes(start[:8], "little") < LONGEST_HEAD


def _read_safetensors(path: Path) -> Weights:
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            text = (file.metadata() or {}).get(NORMALISATION)
    except SafetensorError as error:
        raise InputError(
            f"{path} is no file of safetensors, or cut short or damaged ({_reason(error)}): fetch or write "
            "it anew."
        ) from None
    tensors, notes = _without_prefix(tensors)
    return Weights(tensors, None if text is None else Normalisation.from_text(text), notes)


def _unwrapped(path: Path, content: Any) -> Weights:
    notes, normalisation = [], None
    if isinstance(content, Mapping) and isinstance(content.get(WRAPPER), Mapping):
        others = sorted(str(name) for name in content if name not in (WRAPPER, NORMALISATION))
        aside = f", {', '.join(others)} left aside" if others else ""
        notes.append(f'the weights were taken from under "{WRAPPER}"{aside}')
        if NORMALISATION in content:
            normalisation = _normalisation(content[NORMALISATION])
        content = content[WRAPPER]
    if not isinstance(content, Mapping) or not content:
        raise InputError(
            f"{path} holds {shown(content)}, but tensors by name are needed: save model.state_dict() in it."
        )
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise InputError(
                f"{path} holds {shown(value)} under {name!r}, but tensors by name are needed: save "
                f'model.state_dict() in it, or that under "{WRAPPER}".'
            )
    tensors, stripped = _without_prefix(dict(content))
    return Weights(tensors, normalisation, (*notes, *stripped))


def _normalisation(content: Any) -> Normalisation:
    return Normalisation.from_text(content if isinstance(content, str) else json.dumps(content))


def _without_prefix(tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    if not tensors or not all(name.startswith(PREFIX) for name in tensors):
        return tensors, ()
    named = {name.removeprefix(PREFIX): value for name, value in tensors.items()}
    return named, (f'"{PREFIX}" was taken off the names',)


def _reason(error: Exception) -> str:
    """The sentence of an error that says which global, or what else, was refused."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = next((line for line in lines if "GLOBAL" in line or "Unsupported" in line), "")
    return (telling or (lines or [type(error).__name__])[0]).split(". ")[0].rstrip(".:")
