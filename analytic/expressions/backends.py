"""From expression to callable: numpy, torch or mpmath, with every constant folded beforehand."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial, wraps
from importlib import import_module
from typing import Any

import sympy as sp
from mpmath import mp
from sympy.core.function import AppliedUndef

from analytic.expressions import quadrature
from analytic.expressions.arguments import InputError, exact
from analytic.expressions.expectation import Moment, PairMoment, _Expectation
from analytic.expressions.opaque import Opaque, to_arrays
from analytic.expressions.printer import ArrayPrinter, numpy_names, torch_names
from analytic.expressions.special import HEADS, bounded_exp, share
from analytic.expressions.symbols import z

__all__ = [
    "compile_array", "compile_mpmath", "compile_numpy", "compile_together", "compile_torch",
    "expand_heads", "fold", "host_symbols", "identifier",
]  # fmt: skip

Callback = Callable[..., Any]
LONGEST = 2**63  # the first integer that torch does not take


def compile_mpmath(args: Sequence[sp.Symbol], expr: sp.Expr) -> Callback:
    """A function of mpmath numbers that works at whatever precision is set when it is called."""
    expr = expand_heads(expr)
    expr, averages = _name_expectations(expr)
    functions = {name: _mp_average(node) for name, node in averages.items()}
    expr, programs = _name_programs(expr)
    functions |= {name: node.on_mpmath(compile_mpmath) for name, node in programs.items()}
    functions |= {share.__name__: share.exact, "exp": bounded_exp}
    lazy = expr.has(sp.Piecewise)  # cse would evaluate branches not taken, which may divide by zero
    return sp.lambdify(args, expr, modules=[functions, "mpmath"], cse=not lazy)


def compile_numpy(args: Sequence[sp.Symbol], expr: sp.Expr) -> Callback:
    """A ufunc-like function of numbers and arrays, in float64."""
    np = import_module("numpy")
    body, host = compile_array(args, expr, np, numpy_names())

    @wraps(body)
    def call(*values: Any) -> Any:
        arrays = [
            _require_number(s, v) if s in host else np.asarray(v, dtype=float)
            for s, v in zip(args, values, strict=True)
        ]
        with np.errstate(all="ignore"):  # both branches of a Piecewise are evaluated
            result = np.asarray(body(*arrays), dtype=float)
        shape = np.broadcast_shapes(*(np.shape(v) for v in arrays))
        return np.broadcast_to(result, shape).copy() if shape else float(result)

    return call


def compile_torch(args: Sequence[sp.Symbol], expr: sp.Expr) -> Callback:
    """A differentiable function of tensors: it keeps their dtype and device; numbers may mix in."""
    torch = import_module("torch")
    body, host = compile_array(args, expr, torch, torch_names())

    @wraps(body)
    def call(*values: Any) -> Any:
        tensors = [v for v in values if torch.is_tensor(v)]
        floating = [t for t in tensors if t.dtype.is_floating_point]
        dtype = floating[0].dtype if floating else torch.float64
        for other in floating[1:]:
            dtype = torch.promote_types(dtype, other.dtype)
        tensors.sort(key=lambda t: (t.ndim == 0, t.device.type == "cpu"))  # scalars on the CPU last
        device = tensors[0].device if tensors else None
        converted = [
            _require_number(s, v) if s in host else torch.as_tensor(v, dtype=dtype, device=device)
            for s, v in zip(args, values, strict=True)
        ]
        result = torch.as_tensor(body(*converted), dtype=dtype, device=device)
        shapes = {v.shape for v in converted if isinstance(v, torch.Tensor)}
        if shapes == {result.shape}:
            return result
        return result.expand(torch.broadcast_shapes(*shapes))

    return call


def compile_together(args: Sequence[sp.Symbol], exprs: Sequence[sp.Expr]) -> Callback:
    """Several expressions as one function of tensors, with shared subexpressions; nothing is converted."""
    return compile_array(args, sp.Tuple(*exprs), import_module("torch"), torch_names())[0]


def compile_array(
    args: Sequence[sp.Symbol], expr: sp.Expr, xp: Any, names: dict[str, Any]
) -> tuple[Callback, set[sp.Symbol]]:
    """The compiled body, and the arguments that must stay plain numbers."""
    expr, averages = _name_expectations(sp.sympify(expr))
    heads = {head.__name__: _on_arrays(xp, partial(head.array, xp), head) for head in HEADS}
    names = names | heads
    averaging = {
        name: _on_arrays(xp, _array_average(node, xp, names)) for name, node in averages.items()
    }
    expr, programs = _name_programs(expr)
    table = partial(_table, xp, names)
    running = {name: node.on_arrays(xp, table) for name, node in programs.items()}
    host = host_symbols(expr).union(*(node.host for node in programs.values()))
    return _lambdify(args, expr, names | averaging | running), host


COMPILERS = {"mpmath": compile_mpmath, "numpy": compile_numpy, "torch": compile_torch}


def identifier(name: str) -> str:
    """The name with underscores for what no language allows in one."""
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return f"f_{word}" if not word or word[0].isdigit() else word


def _table(xp: Any, names: dict[str, Any], args: Sequence[sp.Symbol], exprs: sp.Tuple) -> Callback:
    return compile_array(args, exprs, xp, names)[0]


def _lambdify(args: Sequence[sp.Symbol], expr: sp.Expr, names: dict[str, Any]) -> Callback:
    expr = fold(expr)
    for node in expr.atoms(sp.Function):
        if (name := node.func.__name__) not in names and not isinstance(node, sp.Piecewise):
            raise NotImplementedError(
                f"{name} has no form for arrays: evaluate it with mpmath, or give a `stable` form."
            )
    write = ArrayPrinter({"fully_qualified_modules": False})
    return sp.lambdify(args, expr, modules=[names], printer=write, cse=ArrayPrinter.share)


def _on_arrays(xp: Any, body: Callback, head: Any = None) -> Callback:
    """A body for arrays that also takes plain numbers, such as those of `Formula.at`."""
    host = getattr(head, "host", ())
    return lambda *values: body(*to_arrays(xp, values, host))


def _require_number(symbol: sp.Symbol, value: Any) -> int | float:
    """A host argument as a plain number; arrays are refused."""
    if isinstance(value, list | tuple) or getattr(value, "ndim", 0):
        array = f"an array of shape {tuple(value.shape)}" if hasattr(value, "shape") else value
        raise InputError(f"{symbol} must be one number here, but {array} was given.")
    number = exact(symbol, value)
    return int(number) if number.denominator == 1 else float(number)


def host_symbols(expr: sp.Expr) -> set[sp.Symbol]:
    """Symbols that a special function takes as plain numbers, such as the order of a kernel."""
    heads = [node for node in expr.atoms(sp.Function) if isinstance(node, HEADS)]
    named = [node.args[k] for node in heads for k in getattr(node, "host", ())]
    return set().union(*(arg.free_symbols for arg in named)) if named else set()


def expand_heads(expr: sp.Expr) -> sp.Expr:
    """Textbook functions in place of our own, except `share`, which has a value at 0/0."""
    for head in HEADS:
        if head is not share and any(node.func is head for node in expr.atoms(sp.Function)):
            expr = expr.replace(head, head.exact)
    return expr


def fold(expr: Any) -> Any:
    """Constants as floats where torch takes no other: sqrt(2), pi**2, and fractions of long integers.

    A number beyond 2^63 stays an integer, which torch refuses: as a float its square would silently be
    infinite in single precision.
    """
    constant = isinstance(expr, sp.Expr) and expr.is_number
    if constant and expr.is_Rational:
        long = max(abs(expr.p), expr.q) >= LONGEST and 1 < abs(expr) * LONGEST < LONGEST**2
        return expr.evalf(17) if long else expr
    if constant and not expr.has(AppliedUndef, *HEADS):  # evalf cannot compute those
        return expr.evalf(17)
    return expr.func(*map(fold, expr.args)) if expr.args else expr


def _name_expectations(expr: sp.Expr) -> tuple[sp.Expr, dict[str, _Expectation]]:
    """Each distinct average becomes a call `average_k(covariances..., parameters...)`."""
    nodes = sorted(expr.atoms(Moment, PairMoment), key=sp.default_sort_key)
    calls, averages = {}, {}
    for k, node in enumerate(nodes):
        name = f"average_{k}"
        outer = [node.args[1]] if isinstance(node, Moment) else node.args[2:5]
        calls[node] = sp.Function(name)(*outer, *node.parameters)
        averages[name] = node
    return expr.xreplace(calls), averages


def _name_programs(expr: sp.Expr) -> tuple[sp.Expr, dict[str, Opaque]]:
    """Each opaque node becomes a call `program_k(inputs...)`."""
    nodes = sorted(expr.atoms(Opaque), key=sp.default_sort_key)
    programs = {f"program_{k}": node for k, node in enumerate(nodes)}
    calls = {node: sp.Function(name)(*node.inputs) for name, node in programs.items()}
    return expr.xreplace(calls), programs


def _mp_average(node: _Expectation) -> Callback:
    functions = [compile_mpmath((z, *node.parameters), f) for f in node.args[: node.bound]]

    def average(*values: Any) -> Any:
        covariances = len(values) - len(node.parameters)
        fixed = [partial(_at_parameters, f, values[covariances:]) for f in functions]
        if isinstance(node, Moment):
            (f,), (_, _, power, kinks) = fixed, node.args
            return quadrature.moment(f, values[0], int(power), [mp.mpmathify(b) for b in kinks])
        return quadrature.pair(*fixed, *values[:covariances], kinks=node.args[-1])

    return average


def _array_average(node: _Expectation, xp: Any, names: dict[str, Any]) -> Callback:
    functions = [_lambdify((z, *node.parameters), f, names) for f in node.args[: node.bound]]
    if isinstance(node, PairMoment) and any(node.args[-1]):
        raise InputError(
            f"A two-point average can have a kink at 0 only, but kinks {tuple(node.args[-1])} were given: "
            "smooth the activation, or shift its kink to 0."
        )

    def average(*values: Any) -> Any:
        covariances = len(values) - len(node.parameters)
        widened = [p[..., None] if getattr(p, "ndim", 0) else p for p in values[covariances:]]
        fixed = [partial(_at_parameters, f, widened) for f in functions]
        if isinstance(node, Moment):
            (f,), (_, _, power, kinks) = fixed, node.args
            cuts = [float(b) for b in kinks]
            moment = quadrature.moment_array(xp, f, values[0], int(power), cuts)
            return moment.require_converged()
        return quadrature.pair_array(xp, *fixed, *values[:covariances]).require_converged()

    return average


def _at_parameters(f: Callback, parameters: Sequence[Any], point: Any) -> Any:
    """f at a point, with its trailing parameters filled in."""
    return f(point, *parameters)
