"""Kinks of a feature map: a network of ReLUs is flat between them, and its curvature is on them.

Activations with a kink are recognised by name. Any other operation that is not known to be smooth, such as
abs, sort, sqrt, a comparison or a branch on a value, may or may not produce a kink (softplus can be written
with them). Where such an operation runs, values and slopes are searched for jumps, along a line and at each
point. Poles, as of 1/x, are not kinks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from numeric.geometry.derivatives import along, with_slope
from numeric.inputs import InputError
from numeric.models.model import EvaluatedMap, hooked
from numeric.models.output_checks import farthest

__all__ = ["jumps_on_line", "layers_with_kinks", "piecewise_affine", "require_no_kinks"]

KINKED_MODULES = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.RReLU, nn.SELU, nn.Hardtanh, nn.Hardsigmoid,
    nn.Hardswish, nn.Hardshrink, nn.Softshrink, nn.Threshold, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d,
    nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d,
)  # fmt: skip
KINKED_FUNCTIONS = {
    "relu", "relu6", "leaky_relu", "prelu", "rrelu", "selu", "hardtanh", "hardsigmoid", "hardswish",
    "hardshrink", "softshrink", "threshold", "max_pool1d", "max_pool2d", "max_pool3d",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
}  # fmt: skip
# Operations of aten by their names, without the underscore of those in place: analytic, up to poles.
SMOOTH = {
    # linear, or polynomials
    "add", "sub", "rsub", "mul", "div", "neg", "mm", "bmm", "addmm", "addmv", "addbmm", "baddbmm", "mv",
    "dot", "vdot", "addcmul", "addcdiv", "addr", "ger", "outer", "sum", "nansum", "mean", "cumsum",
    "cumprod", "prod", "square", "lerp", "convolution", "_trilinear", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "roll", "linear", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "upsample_linear1d",
    "upsample_bilinear2d", "trace", "tril", "upsample_nearest1d", "upsample_nearest2d",
    "upsample_nearest3d", "upsample_trilinear3d", "triu", "var", "upsample_bicubic2d", "reciprocal",
    "det", "_linalg_det", "linalg_inv_ex", "linalg_cross", "var_mean", "cross", "_fft_r2c", "_fft_c2r",
    "_fft_c2c", "view_as_real", "view_as_complex", "real", "imag", "_conj", "conj", "kron",
    "linalg_matrix_exp", "_linalg_solve_ex", "constant_pad_nd", "flip", "positive",
    # analytic functions
    "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "atan", "asinh", "sigmoid", "erf", "erfc", "softplus", "log_sigmoid_forward", "gelu", "silu", "mish",
    "glu", "sinc", "_softmax", "_log_softmax", "_safe_softmax", "logsumexp", "logaddexp", "logaddexp2",
    "lgamma", "digamma", "special_ndtr", "special_log_ndtr", "special_bessel_j0", "special_bessel_j1",
    "i0", "special_i0e", "special_i1", "special_i1e", "special_erfcx", "native_layer_norm",
    "native_group_norm", "native_batch_norm", "_native_batch_norm_legit",
    "_native_batch_norm_legit_no_training", "cudnn_batch_norm", "_fused_rms_norm",
    # moving entries, creating constants, reading shapes
    "view", "_unsafe_view", "reshape", "_reshape_alias", "expand", "permute", "transpose", "t", "select",
    "slice", "squeeze", "unsqueeze", "cat", "stack", "split", "split_with_sizes", "unsafe_split",
    "unsafe_chunk", "chunk", "unbind", "clone", "copy", "_to_copy", "detach", "alias", "lift_fresh",
    "lift_fresh_copy", "contiguous", "repeat", "repeat_interleave", "diagonal", "diag_embed",
    "as_strided", "unfold", "im2col", "col2im", "index", "index_select", "index_add", "index_put",
    "_index_put_impl", "index_copy", "index_fill", "gather", "scatter", "scatter_add", "select_scatter",
    "slice_scatter", "diagonal_scatter", "slice_backward", "select_backward", "embedding", "take",
    "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "movedim", "flatten",
    "unsafe_split_with_sizes", "native_dropout", "empty", "empty_like", "empty_strided", "zeros",
    "zeros_like", "ones", "ones_like", "full", "full_like", "new_empty", "new_empty_strided", "new_zeros",
    "new_ones", "new_full", "scalar_tensor", "arange", "linspace", "logspace", "eye", "tril_indices",
    "triu_indices", "fill", "zero", "randn", "rand", "normal", "uniform", "resolve_conj", "resolve_neg",
    "expand_copy", "view_copy",
}  # fmt: skip
# Their square roots have positive arguments if eps is above 0. It is told by its place among the arguments
# and its default; None is the epsilon of the dtype, which is nothing beside what is normalised.
NORMS = {
    "layer_norm": (4, 1e-5), "instance_norm": (7, 1e-5), "group_norm": (4, 1e-5), "batch_norm": (7, 1e-5),
    "rms_norm": (3, None), "native_layer_norm": (4, 0.0), "native_group_norm": (7, 0.0),
    "native_batch_norm": (7, 0.0),
}  # fmt: skip
FAR = (2.0, -1.0)  # factors of the first point: an affine map has the same slopes there
# Where the line starts and ends, in units of the distance of its two points. The odd numbers keep a kink
# halfway between the points off the nodes, since sqrt(x * x) has no slope at 0.
BEFORE, BEYOND = -1.0173, 2.0091
PIECES = 96  # segments of that line
# Of each segment. Far fewer would find kinks in a steep smooth map; with more, slopes of acos(cos x) are NaN.
HALVINGS = 18
JUMP = 1e-4  # share of a feature's largest slope, or of the spread of its values, that counts as a jump
ROUNDED = 2 / 3  # epsilon to this power, times the largest value or slope, may be rounding
ACROSS = 0.44  # epsilon to this power, of the size of a point, is the least step across it: 1e-7 in float64
STEPS = (
    1,
    4,
    16,
)  # in units of that: changes of a smooth map grow with them, and those of a jump do not
ROWS = 64  # points that are looked at together


def require_no_kinks(names: Sequence[str]) -> None:
    """Raise an error that says why there is no Ricci scalar, if any layer has kinks."""
    if names:
        raise InputError(
            f"The features have kinks, by {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}. "
            "Between them a piecewise linear map is flat, and on them second derivatives do not exist: "
            "metric and log_volume exist, a Ricci scalar does not. Take a smooth activation, such as GELU, "
            "SiLU, Softplus or Tanh, and no comparing, sorting, rounding or steps."
        )


class _Functions(TorchFunctionMode):
    """Record the functions with kinks that are called, and which function is running."""

    def __init__(self) -> None:
        super().__init__()
        self.kinked: list[str] = []
        self.suspects: list[str] = []  # norms that divide by what may be 0
        self.running = ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.running = getattr(func, "__name__", "").strip("_")  # in place or not
        if self.running in KINKED_FUNCTIONS:
            self.kinked.append(self.running)
        if self.running in NORMS:
            place, default = NORMS[self.running]
            given = args[place] if len(args) > place else default
            if not (kwargs or {}).get("eps", given):
                self.suspects.append(self.running)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.running = ""


class _Operations(TorchDispatchMode):
    """Record operations that are not known to be smooth, by the functions that call them."""

    def __init__(self, functions: _Functions) -> None:
        super().__init__()
        self.functions = functions
        self.suspects: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        running = self.functions.running
        if running not in NORMS and not _smooth(func, args, kwargs or {}):
            self.suspects.append(running or func.overloadpacket.__name__.strip("_"))
        return func(*args, **(kwargs or {}))


def _smooth(operation: Any, args: Sequence[Any], options: Mapping[str, Any]) -> bool:
    name = operation.overloadpacket.__name__
    name = name if name in SMOOTH else name.rstrip("_")  # in place or not
    if operation.namespace not in ("aten", "prims"):
        return False
    if name == "_to_copy":  # conversion to integers rounds
        return (options.get("dtype") or torch.float64).is_floating_point
    if name == "div":
        return options.get("rounding_mode") is None
    if name == "pow":
        return not isinstance(args[0], Tensor) or (
            not isinstance(args[1], Tensor) and float(args[1]).is_integer()
        )
    return name in SMOOTH


def layers_with_kinks(f: EvaluatedMap, module: nn.Module | None) -> list[str]:
    """Names of the modules with kinks that run before the features, or else of such functions."""
    run: list[str] = []
    with ExitStack() as stack:
        for name, part in () if module is None else module.named_modules():
            if isinstance(part, KINKED_MODULES) or (isinstance(part, nn.ELU) and part.alpha != 1):
                label = f"{type(part).__name__} ({name})" if name else type(part).__name__
                stack.enter_context(hooked(part, lambda *_, label=label: run.append(label)))
        functions = stack.enter_context(_Functions())
        operations = stack.enter_context(_Operations(functions))
        f(f.points[:1])
    names = run or functions.kinked
    suspects = [*functions.suspects, *operations.suspects]
    if not names and suspects and (jumps_on_line(f) or jumps_at_points(f)):
        names = suspects
    return list(dict.fromkeys(names))


def jumps_on_line(f: EvaluatedMap) -> bool:
    """Whether values, or slopes along a line through two points, jump somewhere on the line.

    Each segment of the line is bisected, and the half across which they change more is kept. Where the map
    is smooth the change shrinks with the length; at a kink it does not. NaN is ignored, since the line may
    leave the domain of the map.
    """
    start, stop = farthest(f.points)
    if torch.equal(start, stop):
        stop = (
            start
            + start.abs().amax().clamp(min=1) * torch.arange(1, len(start) + 1).to(start).sin()
        )
    direction = stop - start

    def values_and_slopes(positions: Tensor) -> Tensor:
        """Values and slopes, (2, k, p)."""
        pair = torch.stack(
            with_slope(
                f, start + positions[:, None] * direction, direction.expand(len(positions), -1)
            )
        )
        # Where the values of log are NaN, its slopes are not.
        return pair.where(pair.isfinite().all(0), torch.nan)

    positions = torch.linspace(BEFORE, BEYOND, PIECES + 1, dtype=start.dtype, device=start.device)
    nodes = values_and_slopes(positions)
    spread = torch.stack([nodes[0] - nodes[0].nanmean(0), nodes[1]]).abs().nan_to_num()
    rounded = nodes.abs().nan_to_num().amax((1, 2)) * torch.finfo(nodes.dtype).eps ** ROUNDED
    limits = torch.maximum(JUMP * spread.amax(1), rounded[:, None])[:, None]  # (2, 1, p)

    def gaps(one: Tensor, other: Tensor) -> Tensor:
        """The largest change of a value or slope, in units of what counts as a jump: (k,)."""
        return ((one - other).abs() / limits).nan_to_num(0.0).amax((0, 2))

    left, right, ends = positions[:-1], positions[1:], (nodes[:, :-1], nodes[:, 1:])
    for _ in range(HALVINGS):
        middle = (left + right) / 2
        value = values_and_slopes(middle)
        first, second = (gaps(value, end) for end in ends)
        lower, steep = first > second, torch.maximum(first, second) > 1
        left, right = torch.where(lower, left, middle), torch.where(lower, middle, right)
        ends = (
            torch.where(lower[:, None], ends[0], value), torch.where(lower[:, None], value, ends[1])
        )  # fmt: skip
        left, right, ends = left[steep], right[steep], tuple(end[:, steep] for end in ends)
        if not len(left):
            return False
    return bool((gaps(*ends) > 1).any())


def jumps_at_points(f: EvaluatedMap) -> bool:
    """Whether values, or slopes along one direction, jump at a point itself, which the line may not meet.

    Across a jump they change by as much over a small step as over one 16 times as long. NaN is ignored.
    """
    return bool(torch.stack([_jumps_across(f, x).any() for x in f.points.split(ROWS)]).any())


def _jumps_across(f: EvaluatedMap, x: Tensor) -> Tensor:
    """Where values and slopes jump at points (n, d): (2, n, p)."""
    sizes, largest = x.abs().amax(1, keepdim=True), x.abs().amax()
    sizes = sizes.where(sizes > 0, largest.where(largest > 0, 1.0))
    way = sizes * torch.arange(1, x.shape[1] + 1).to(x).sin()
    step = f.epsilon**ACROSS

    def at(shift: float) -> Tensor:
        """Values and slopes, (2, n, p)."""
        return torch.stack(with_slope(f, x + shift * way, way))

    sides = [(at(c * step), at(-c * step)) for c in STEPS]
    narrow, middle, wide = ((one - other).abs() for one, other in sides)
    largest = torch.stack(sides[-1]).abs().nan_to_num().amax(0)  # (2, n, p)
    rounded = largest.amax((1, 2), keepdim=True) * f.epsilon**ROUNDED
    limits = torch.maximum(JUMP * largest, rounded)
    return (narrow > limits) & (narrow > wide / 4) & (middle > wide / 4)


def piecewise_affine(f: EvaluatedMap) -> bool:
    """Whether a map whose second derivatives vanish has different slopes at different points."""
    x = torch.cat([f.points[:64], *(scale * f.points[:1] for scale in FAR)])
    slopes = along(f, x, torch.ones_like(x))
    spread = (slopes - slopes[:1]).abs().amax()
    return bool(spread > torch.finfo(x.dtype).eps ** 0.5 * slopes.abs().amax())
