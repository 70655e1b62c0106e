"""Any torch module or callable, opened once: layers by name, evaluation mode, batches and parameters.

    model = Model.of(network, layer="1")        # cut at a layer
    model.layers                                # all of them by name
    model.evaluate(x)                           # (n, p), in batches that fit into memory
    model.functional_call(parameters, x)        # with other parameters
    with model.on(x) as f:
        f.points                                # (n, d), detached
        f(f.points)                             # (n, p), to be differentiated by torch.func or torch.autograd

Inside `on`, the model is in evaluation mode and its parameters get no gradients; afterwards its modes and its
buffers are restored. The model receives copies of the points, which it may overwrite.
Points come in the shape (n, ...) that the model takes; both sides are flattened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from numeric.inputs import ArrayLike, InputError, as_numbers, shown, whole
from numeric.models.memory import GIGABYTE, Meter
from numeric.models.output_checks import check_outputs, run_or_explain
from numeric.models.repaired_operations import REPAIRED, ReplacedOperations
from numeric.progress import progress_bar

__all__ = ["EvaluatedMap", "Model", "ModelLike", "evaluation_mode", "hooked", "plain_attention"]

NAMES = 40  # layers or parameters listed by an error message

Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class EvaluatedMap:
    """A map on flat points, in evaluation mode and checked, ready to be differentiated."""

    call: Map = field(repr=False)  # (m, d) -> (m, p) for any m
    points: Tensor  # (n, d)
    count: int  # p, the number of features
    epsilon: float  # rounding unit of points or features, whichever is larger

    def __call__(self, x: Tensor) -> Tensor:
        """(m, d) -> (m, p)."""
        return self.call(x)


@dataclass(frozen=True, eq=False)
class Model:
    """A callable, the module inside it if any, and the layer whose output is meant; see `Model.of`."""

    body: Callable[..., Any]
    module: nn.Module | None = None
    layer: str | None = None

    @classmethod
    def of(cls, model: ModelLike, layer: str | None = None) -> Model:
        """Open a module, a method of a module, or any callable (n, ...) -> (n, ...).

        `layer` is the name of a submodule, as in `named_modules`, whose output is taken instead of the last
        one. Returned is a `Model`; a `Model` is cut at the layer. Refused are things that
        cannot be called, layers of a function, and names of no layer.

        >>> net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
        >>> Model.of(net, layer="1")(torch.zeros(5, 2)).shape
        torch.Size([5, 3])
        """
        if isinstance(model, cls):
            return model if layer is None else cls.of(model.body, layer)
        if not callable(model):
            raise InputError(
                f"model = {shown(model)} was given, but a torch.nn.Module or a function from (n, ...) "
                "to (n, ...) tensors is needed."
            )
        owner = getattr(model, "__self__", None)
        module = next((m for m in (model, owner) if isinstance(m, nn.Module)), None)
        opened = cls(model, module, layer)
        if layer is not None:
            opened._check_layer(layer)
        return opened

    @property
    def layers(self) -> dict[str, nn.Module]:
        """All submodules by name, outer ones before those inside; none for a function.

        >>> list(Model.of(nn.Sequential(nn.Linear(2, 3), nn.Tanh())).layers)
        ['0', '1']
        """
        parts = () if self.module is None else self.module.named_modules()
        return {name: part for name, part in parts if name}

    def up_to(self, layer: str) -> Model:
        """The same model, cut at another layer."""
        return Model.of(self.body, layer)

    def __call__(self, x: Tensor) -> Tensor:
        """The output, in the present mode and with gradients; with a layer, its first output.

        What follows the layer is not computed. `on` and `evaluate` refuse layers that run several times.
        """
        if self.layer is None:
            return self.body(x)

        def stop(_: Any, __: Any, output: Any) -> NoReturn:
            raise _Reached(output)

        with hooked(self._require_module("layers").get_submodule(self.layer), stop):
            try:
                self.body(x)
            except _Reached as reached:
                return reached.output
        raise InputError(f"The layer {self.layer!r} runs 0 times in one pass: pick one that runs.")

    @contextmanager
    def on(
        self,
        x: ArrayLike,
        watched: Callable[[Tensor], Any] | None = None,
        tokens: bool = False,
    ) -> Iterator[EvaluatedMap]:
        """Open the map at points x (n, ...): evaluation mode, repaired operations, outputs checked.

        Outputs are checked on two points together and then on each alone; `watched` runs the model there, for
        a caller who watches it run. `tokens` allows whole numbers, by which nothing can be differentiated.
        Refused are points that do not fit, outputs that are no (n, ...) numbers, and maps that are random or
        mix the rows of a batch.

        >>> with Model.of(nn.Linear(3, 2).double()).on(torch.zeros(4, 3, dtype=torch.float64)) as f:
        ...     f(f.points).shape
        torch.Size([4, 2])
        """
        x = as_numbers("x", x)
        points = self.check_points(x, tokens)
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.no_grad())
            stack.enter_context(plain_attention())
            stack.enter_context(ReplacedOperations(REPAIRED))
            stack.enter_context(evaluation_mode(self))
            self._require_layer_runs_once(x)
            run, call = self._on_copies(x.shape[1:])
            outputs = check_outputs(watched or run, points, x.shape[1:])
            real = {part.dtype for part in (points, outputs) if part.is_floating_point()}
            epsilon = max(torch.finfo(dtype).eps for dtype in real)
            yield EvaluatedMap(call, points, outputs.shape[1], epsilon)

    def evaluate(
        self,
        x: ArrayLike,
        batch_size: int | None = None,
        memory: int = 2 * GIGABYTE,
        progress: bool = True,
    ) -> Tensor:
        """Outputs in evaluation mode, without gradients: points (n, ...) -> (n, p), outputs flattened.

        Without a `batch_size`, batches are as large as `memory` allows: a budget in bytes, beside the model,
        the points and the result, to which the memory of one point is compared. Refused are what `on`
        refuses, and a budget that is too small for one point.

        >>> net = nn.Sequential(nn.Linear(3, 5), nn.Tanh()).double()
        >>> Model.of(net).evaluate(torch.zeros(7, 3, dtype=torch.float64), batch_size=2).shape
        torch.Size([7, 5])
        """
        whole("memory", memory)
        if batch_size is not None:
            whole("batch_size", batch_size)
        with self.on(x) as f:
            size = batch_size or self._largest_batch(f, memory)
            first = f(f.points[:1])
            result = first.new_empty(len(f.points), f.count)
            with progress_bar(of="points", show=progress, total=len(result)) as bar:
                for rows in torch.arange(len(result), device=result.device).split(size):
                    result[rows] = f(f.points[rows])
                    bar.update(len(rows))
        return result

    @staticmethod
    def _largest_batch(f: EvaluatedMap, memory: int) -> int:
        with Meter() as meter:
            f(f.points[:1])
        if meter.peak > memory:
            raise InputError(
                f"memory = {memory} bytes was given, but one point needs {meter.peak}: give at least that."
            )
        return memory // max(1, meter.peak)

    def parameters(
        self, trainable: bool = True, modules: str | Iterable[str] | None = None
    ) -> dict[str, Tensor]:
        """The parameters by name, as they are: those that require gradients, or with trainable=False all.

        `modules` names one layer or several whose parameters are meant, by default the whole module's.
        Refused are functions, which have none, names of no layer, and a choice that leaves no parameter.

        >>> net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
        >>> list(Model.of(net).parameters(modules="2"))
        ['2.weight', '2.bias']
        """
        module = self._require_module("parameters")
        names = (modules,) if isinstance(modules, str) else modules
        if names is not None:
            if not isinstance(names, Iterable):
                raise InputError(f"modules = {names!r} was given, but names of layers are needed.")
            names = tuple(names)
            for name in names:
                _require_layer(module, name)
        chosen: dict[str, Tensor] = {
            name: part
            for name, part in module.named_parameters()
            if (part.requires_grad or not trainable)
            and (names is None or any(name.startswith(f"{layer}.") for layer in names))
        }
        if not chosen:
            kind = "parameters that require gradients" if trainable else "parameters"
            raise InputError(
                f"{type(module).__name__} has no {kind} in {', '.join(names or ('it',))}: choose other "
                "modules, or trainable=False."
            )
        return chosen

    def functional_call(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """The output with other parameters, by `torch.func.functional_call`: cut models and methods too.

        Parameters that are not named keep their values. Any of torch's transforms may be applied. Refused are
        functions, which have no parameters, names of none, and tensors of other shapes.

        >>> model = Model.of(nn.Linear(2, 1))
        >>> zero = {name: torch.zeros_like(value) for name, value in model.parameters().items()}
        >>> model.functional_call(zero, torch.ones(3, 2)).squeeze(1).tolist()
        [0.0, 0.0, 0.0]
        """
        module = self._require_module("parameters")
        if not isinstance(parameters, Mapping):
            raise InputError(
                f"parameters = {parameters!r} was given, but tensors by name are needed, "
                "as Model.parameters gives them."
            )
        known = {
            **dict(module.named_parameters(remove_duplicate=False)),
            **dict(module.named_buffers()),
        }
        for name, value in parameters.items():
            if name not in known:
                raise InputError(f"There is no parameter {name!r}; there are {_listed(known)}.")
            if not isinstance(value, Tensor) or value.shape != known[name].shape:
                shape = tuple(value.shape) if isinstance(value, Tensor) else repr(value)
                raise InputError(
                    f"The parameter {name!r} has shape {tuple(known[name].shape)}, but {shape} was given."
                )
        named = {f"module.{name}": value for name, value in parameters.items()}
        return functional_call(self._around, named, (x,))

    @cached_property
    def _around(self) -> nn.Module:
        return _Around(self)

    def require_separate_examples(self, x: ArrayLike) -> None:
        """Refuse, in its present mode, a model whose output at a point depends on other points or on chance.

        Refused are batch normalisation by the batch and dropout in training mode, each by name if it runs,
        and any other map that mixes the rows of a batch x (n, ...) or is random. Modes, buffers and random
        numbers of the CPU are left as they were.

        >>> Model.of(nn.Linear(2, 3)).require_separate_examples(torch.eye(2))
        """
        x = as_numbers("x", x)
        points = self.check_points(x, tokens=True)
        with ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            stack.enter_context(torch.random.fork_rng(devices=[]))
            if self.module is not None:
                stack.enter_context(_restored(self.module))
                for name, part in {"": self.module, **self.layers}.items():
                    if (reason := _mixes_or_draws(part)) is not None:
                        handle = part.register_forward_pre_hook(_refuse(name, part, reason))
                        stack.callback(handle.remove)
            run, _ = self._on_copies(x.shape[1:])
            check_outputs(run, points, x.shape[1:])

    def check_points(self, x: ArrayLike, tokens: bool = False) -> Tensor:
        """Refuse points that do not fit the model, and flatten the others: (n, ...) -> (n, d).

        With `tokens` they may be whole numbers, as those that an embedding takes.

        >>> Model.of(torch.sin).check_points([[0.0, 1.0], [2.0, 3.0]]).shape
        torch.Size([2, 2])
        """
        x = as_numbers("x", x)
        if x.ndim < 2 or x.numel() == 0:
            raise InputError(
                f"x of shape {tuple(x.shape)} was given, but at least one point of one coordinate is "
                "needed, in shape (n, ...): write x[None] for a single point."
            )
        if x.layout != torch.strided:
            raise InputError(f"x is {x.layout}, but points are dense: write x.to_dense().")
        if not (tokens or x.dtype.is_floating_point):
            raise InputError(f"x is {x.dtype}, but points are real: write x.double().")
        if not torch.isfinite(x).all():
            raise InputError("x has entries that are NaN or infinite: remove those points.")
        for tensor in () if self.module is None else self.module.parameters():
            if tensor.device != x.device:
                raise InputError(
                    f"x is on {x.device}, but the model on {tensor.device}: move one of them."
                )
            if tensor.is_floating_point() and x.is_floating_point() and tensor.dtype != x.dtype:
                raise InputError(
                    f"x is {x.dtype}, but the model {tensor.dtype}: write model.double() for the sake "
                    "of precision, or convert x."
                )
        # Rows of an expanded tensor share memory, which torch cannot differentiate.
        return x.detach().reshape(len(x), math.prod(x.shape[1:])).contiguous()

    def _on_copies(self, shape: torch.Size) -> tuple[Callable[[Tensor], Any], Map]:
        """The model on copies of batches (m, ...), and the map (m, d) -> (m, p) of flat ones."""

        def run(batch: Tensor) -> Any:
            return self(_copy(batch))

        def call(flat: Tensor) -> Tensor:
            out = run(flat.reshape(-1, *shape))
            return out if out.ndim == 2 else out.flatten(1)

        return run, call

    def _require_layer_runs_once(self, x: Tensor) -> None:
        if self.layer is None:
            return
        calls: list[None] = []
        layer = self._require_module("layers").get_submodule(self.layer)
        with hooked(layer, lambda *_: calls.append(None)):
            run_or_explain(self.body, _copy(x[:1].detach()))
        if len(calls) != 1:
            raise InputError(
                f"The layer {self.layer!r} runs {len(calls)} times in one pass, so that it is not clear "
                "which output is meant: pick a layer that runs once."
            )

    def _require_module(self, what: str) -> nn.Module:
        if self.module is None:
            raise InputError(
                f"{self.body!r} is a function and has no {what} with names: give the torch.nn.Module."
            )
        return self.module

    def _check_layer(self, layer: str) -> None:
        if self.module is None:
            raise InputError(
                f"layer = {layer!r} was given, but only a torch.nn.Module has layers with names: give "
                "the module, or a function that ends at that layer."
            )
        _require_layer(self.module, layer)


ModelLike = Model | nn.Module | Callable[[Tensor], Tensor]  # whatever `Model.of` opens


class _Around(nn.Module):
    """A module around a model, through which torch.func.functional_call reaches methods and cut models."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.module, self.model = model.module, model

    def forward(self, x: Tensor) -> Any:
        return self.model(x)


class _Reached(Exception):
    """The layer at which a model is cut has run."""

    def __init__(self, output: Any) -> None:
        self.output = output


@contextmanager
def evaluation_mode(model: ModelLike) -> Iterator[None]:
    """Evaluation mode inside; afterwards, after an error too, all modes and changed buffers are restored.

    A function has no modes, and is left alone.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    >>> with evaluation_mode(net):
    ...     net.training
    False
    >>> net.training
    True
    """
    module = Model.of(model).module
    if module is None:
        yield
        return
    with _restored(module):
        module.eval()
        yield


@contextmanager
def _restored(module: nn.Module) -> Iterator[None]:
    """Restore the modes of all parts and any changed buffers afterwards."""
    modes = [(part, part.training) for part in module.modules()]
    buffers = [
        (part, name, buffer, _version(buffer), buffer.clone())
        for part in module.modules()
        for name, buffer in part.named_buffers(recurse=False)
    ]
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
        for part, name, buffer, version, before in buffers:
            part._buffers[name] = buffer
            if _version(buffer) != version:  # copying always would invalidate graphs saved before
                buffer.copy_(before)


def _version(buffer: Tensor) -> int:
    """How often a buffer was written to; 0 for tensors of inference mode, which cannot be."""
    return 0 if buffer.is_inference() else buffer._version


def _copy(x: Tensor) -> Tensor:
    """A copy, since the map may overwrite its input."""
    return x.clone(memory_format=torch.contiguous_format)


@contextmanager
def hooked(layer: nn.Module, action: Callable[..., None]) -> Iterator[None]:
    """Call the action with (layer, inputs, output) each time the layer has run."""
    handle = layer.register_forward_hook(action)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def plain_attention() -> Iterator[None]:
    """Disable fused attention, which has no forward-mode derivatives."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _mixes_or_draws(part: nn.Module) -> str | None:
    """Why the outputs of a module for one example depend on others or on chance, or None."""
    if isinstance(part, nn.modules.batchnorm._BatchNorm):
        if part.running_mean is None:
            return "normalises by the batch always, so that examples mix: let it track running statistics"
        if part.training:
            return (
                "normalises by the batch in training mode, so that examples mix: call model.eval()"
            )
    if isinstance(part, nn.modules.dropout._DropoutNd) and part.training and part.p:
        return "drops units at random in training mode: call model.eval(), or set its p to 0"
    return None


def _refuse(name: str, part: nn.Module, reason: str) -> Callable[..., NoReturn]:
    def hook(*_: Any) -> NoReturn:
        raise InputError(f"{type(part).__name__}{f' ({name})' if name else ''} {reason}.")

    return hook


def _require_layer(module: nn.Module, layer: str) -> None:
    if not isinstance(layer, str):
        raise InputError(
            f"layer = {layer!r} was given, but layers are picked by name: write {str(layer)!r}."
        )
    names = [name for name, _ in module.named_modules() if name]
    if layer not in names:
        names.sort(key=lambda name: name.count("."))  # outermost first
        raise InputError(f"There is no layer {layer!r}; the layers are {_listed(names)}.")


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return (", ".join(names[:NAMES]) or "none") + more
