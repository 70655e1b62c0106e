"""How a module or a callable becomes a map on a batch of flat points, at any of its layers.

    with Model.of(model, layer="1").on(x) as f:
        f.points                # (n, d), detached
        f(f.points)             # (n, p), to be differentiated by torch.func or torch.autograd

Inside, the model is in eval mode and its parameters get no gradients; afterwards its mode and its buffers are
restored. The model receives copies of the points, which it may overwrite.
Points come in the shape (n, ...) that the model takes; both sides are flattened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from numeric.inputs import InputError
from numeric.models import repaired_operations
from numeric.models.output_checks import check_outputs, run_or_explain
from numeric.models.repaired_operations import ReplacedOperations

NAMES = 40  # layers listed by an error message

Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class EvaluatedMap:
    """A map on flat points, in eval mode and checked, ready to be differentiated."""

    call: Map = field(repr=False)  # (m, d) -> (m, p) for any m
    points: Tensor  # (n, d)
    count: int  # p, the number of features
    epsilon: float  # rounding unit of points or features, whichever is larger

    def __call__(self, x: Tensor) -> Tensor:
        return self.call(x)


@dataclass(frozen=True, eq=False)
class Model:
    """A callable, the module inside it if any, and the layer whose output are the features."""

    body: Callable[..., Any]
    module: nn.Module | None = None
    layer: str | None = None

    @classmethod
    def of(cls, features: Any, layer: str | None = None) -> Model:
        """From a module, a method of a module, or any callable (n, ...) -> (n, ...)."""
        if isinstance(features, cls):
            return features if layer is None else cls.of(features.body, layer)
        if not callable(features):
            raise InputError(
                f"features = {features!r} was given, but a torch.nn.Module or a function from (n, ...) "
                "to (n, ...) tensors is needed."
            )
        owner = getattr(features, "__self__", None)
        module = next((m for m in (features, owner) if isinstance(m, nn.Module)), None)
        if layer is not None:
            _check_layer(module, layer)
        return cls(features, module, layer)

    @contextmanager
    def on(self, x: Tensor) -> Iterator[EvaluatedMap]:
        """Open the map at the points x: eval mode, repaired operations, outputs checked."""
        points = self.check_points(x)
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.no_grad())
            stack.enter_context(_plain_attention())
            stack.enter_context(ReplacedOperations(repaired_operations.REPAIRED))
            if self.module is not None:
                stack.enter_context(evaluating(self.module))
            body = self.body if self.layer is None else stack.enter_context(self._up_to_layer(x))

            def run(batch: Tensor) -> Any:
                return body(_copy(batch))

            def call(flat: Tensor) -> Tensor:
                out = run(flat.reshape(-1, *x.shape[1:]))
                return out if out.ndim == 2 else out.flatten(1)

            count = check_outputs(run, call, points, x.shape[1:])
            dtypes = (points.dtype, call(points[:1]).dtype)
            yield EvaluatedMap(call, points, count, max(torch.finfo(dtype).eps for dtype in dtypes))

    def check_points(self, x: Any) -> Tensor:
        """Refuse points that do not fit the model, and flatten the others: (n, ...) -> (n, d)."""
        if not isinstance(x, Tensor):
            raise InputError(
                f"x is a {type(x).__name__}, but a tensor of shape (n, ...) is needed."
            )
        if x.ndim < 2 or x.numel() == 0:
            raise InputError(
                f"x of shape {tuple(x.shape)} was given, but at least one point of one coordinate is "
                "needed, in shape (n, ...): write x[None] for a single point."
            )
        if x.layout != torch.strided:
            raise InputError(f"x is {x.layout}, but points are dense: write x.to_dense().")
        if not x.dtype.is_floating_point:
            raise InputError(f"x is {x.dtype}, but points are real: write x.double().")
        if not torch.isfinite(x).all():
            raise InputError("x has entries that are NaN or infinite: remove those points.")
        for tensor in () if self.module is None else self.module.parameters():
            if tensor.device != x.device:
                raise InputError(
                    f"x is on {x.device}, but the model on {tensor.device}: move one of them."
                )
            if tensor.dtype.is_floating_point and tensor.dtype != x.dtype:
                raise InputError(
                    f"x is {x.dtype}, but the model {tensor.dtype}: write model.double() for the sake "
                    "of precision, or convert x."
                )
        # Rows of an expanded tensor share memory, which torch cannot differentiate.
        return x.detach().reshape(len(x), math.prod(x.shape[1:])).contiguous()

    @contextmanager
    def _up_to_layer(self, x: Tensor) -> Iterator[Map]:
        """The map up to the layer; what follows it is not computed."""
        target = self.module.get_submodule(self.layer)
        calls: list[Any] = []
        with hooked(target, lambda _, __, output: calls.append(output)):
            run_or_explain(self.body, _copy(x[:1].detach()))
        if len(calls) != 1:
            raise InputError(
                f"The layer {self.layer!r} runs {len(calls)} times in one pass, so that it is not clear "
                "which output is meant: pick a layer that runs once."
            )

        def stop(_: Any, __: Any, output: Any) -> None:
            raise _Reached(output)

        def run(points: Tensor) -> Any:
            try:
                return self.body(points)
            except _Reached as reached:
                return reached.output

        with hooked(target, stop):
            yield run


class _Reached(Exception):
    def __init__(self, output: Any) -> None:
        self.output = output


def _copy(x: Tensor) -> Tensor:
    """A copy, since the map may overwrite its input."""
    return x.clone(memory_format=torch.contiguous_format)


def _version(buffer: Tensor) -> int:
    """How often a buffer was written to; 0 for tensors of inference mode, which cannot be."""
    return 0 if buffer.is_inference() else buffer._version


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Eval mode inside; afterwards the modes of all parts and any changed buffers are restored."""
    modes = [(part, part.training) for part in module.modules()]
    buffers = [
        (part, name, buffer, _version(buffer), buffer.clone())
        for part in module.modules()
        for name, buffer in part.named_buffers(recurse=False)
    ]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
        for part, name, buffer, version, before in buffers:
            part._buffers[name] = buffer
            if _version(buffer) != version:  # copying always would invalidate graphs saved before
                buffer.copy_(before)


@contextmanager
def hooked(layer: nn.Module, action: Callable[..., None]) -> Iterator[None]:
    """Call the action with (layer, inputs, output) each time the layer has run."""
    handle = layer.register_forward_hook(action)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _plain_attention() -> Iterator[None]:
    """Disable fused attention, which has no forward-mode derivatives."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _check_layer(module: nn.Module | None, layer: str) -> None:
    if module is None:
        raise InputError(
            f"layer = {layer!r} was given, but only a torch.nn.Module has layers with names: give the "
            "module, or a function that ends at that layer."
        )
    if not isinstance(layer, str):
        raise InputError(
            f"layer = {layer!r} was given, but layers are picked by name: write {str(layer)!r}."
        )
    names = [name for name, _ in module.named_modules() if name]
    if layer not in names:
        listed = ", ".join(names[:NAMES]) or "none"
        more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
        raise InputError(f"There is no layer {layer!r}; the layers are {listed}{more}.")
