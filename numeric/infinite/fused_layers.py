"""One layer on a tile as a short program of torch calls, in scratch memory that is used again.

Three passes make it: `translate` writes closed forms as instructions, each with a tile as its result;
`allocate` chooses the memory of each result; `source` prints them. Sums become chains of multiply-adds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

import sympy as sp
import torch
from torch import Tensor

from analytic.activations.gram_tiles import ARGS, Tile, det
from analytic.expressions.backends import compile_together, fold
from analytic.expressions.expectation import Moment
from analytic.expressions.symbols import kxx, kxy, kyy

__all__ = [
    "Instruction", "Place", "Program", "allocate", "averages", "compile_program", "layer", "source",
    "translate",
]  # fmt: skip

theta = sp.Symbol("theta", real=True)
NUMBERS = scale, bias, weights, biases = sp.symbols("scale bias weights biases", real=True)
INPUTS = (*ARGS, theta, *NUMBERS)
FREE = "free"
FUNCTIONS = ("asin", "atan", "cos", "cosh", "exp", "sin", "sinh", "tanh")  # with torch's names
CALLS = {
    name: getattr(torch, name)
    for name in (*FUNCTIONS, "add", "addcmul", "mul", "pow", "rsqrt", "sqrt")
}
FACTOR = {
    "add": "alpha",
    "addcmul": "value",
}  # keyword of the number that multiplies the last operands


def layer(tile: Tile, tangent: bool, plain: bool) -> Callable[..., tuple[Tensor, ...]]:
    """From (kxx, kxy, kyy, det, theta, *NUMBERS, free) to the covariance and tangent kernel after it.

    `plain` says that the tangent kernel takes in the covariance as it is. `scale` and `weights` are
    numbers, `bias` and `biases` tensors without a dimension, from which a chain can start. The tiles
    free[0], free[1], ... are written to.
    """
    k = _distribute_constants(scale * tile.kernel) + bias
    outputs = [k]
    if tangent:
        own = k if plain else _distribute_constants(weights * tile.kernel) + biases
        outputs.append(own + scale * tile.slope * theta)
    program = translate(outputs)
    return compile_program(program, allocate(program))


def averages(
    tile: Tile, tangent: bool, theta_only: bool = False
) -> Callable[..., tuple[Tensor | None, Tensor | None]]:
    """As `layer` without scales, from (kxx, kxy, kyy, det, theta, free): averages alone, times theta.

    Results take the place of kxy and theta where no later instruction reads these. The average over phi is
    left out where it is `theta_only`, and that over its slope without `tangent`: they are then None.
    """
    outputs = {} if theta_only else {kxy: _distribute_constants(tile.kernel)}
    if tangent:
        outputs[theta] = tile.slope * theta
    program = translate(list(outputs.values()))
    places = _in_place(program, allocate(program), tuple(outputs))
    step, zero = compile_program(program, places), (0.0,) * len(NUMBERS)

    def call(
        kxx: Tensor,
        kxy: Tensor,
        kyy: Tensor,
        det: Tensor | None,
        theta: Tensor | None,
        free: object,
    ) -> tuple[Tensor | None, Tensor | None]:
        results = step(kxx, kxy, kyy, det, theta, *zero, free)
        return None if theta_only else results[0], results[-1] if tangent else None

    return call


def _in_place(
    program: Program, places: dict[sp.Symbol, Place], targets: tuple[sp.Symbol, ...]
) -> dict[sp.Symbol, Place]:
    """Places with each output in its target, if that is not read afterwards, nor the output twice."""
    moved = dict(places)
    for output, target in zip(program.outputs, targets, strict=False):
        made = [k for k, step in enumerate(program.instructions) if step.result == output]
        if not made or places[output].out is None or program.outputs.count(output) > 1:
            continue
        later = program.instructions[made[0] + 1 :]
        if not any(target in step.operands for step in later):
            moved[output] = Place(target.name, target.name)
    return moved


@dataclass(frozen=True)
class Instruction:
    """result = call(*operands), where `factor` multiplies the last operand, or the last two of addcmul.

    Without a call, the result is the value of `expr`, in memory that torch chooses.
    """

    result: sp.Symbol
    call: str | None
    operands: tuple[sp.Symbol, ...]
    factor: sp.Symbol | None = None
    expr: sp.Basic | None = None


@dataclass
class Program:
    """Small expressions (numbers, rows and columns), computed first; then instructions on tiles."""

    small: dict[sp.Expr, sp.Symbol] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)
    outputs: tuple[sp.Symbol, ...] = ()


# First pass: expressions become instructions.


def translate(exprs: Sequence[sp.Expr]) -> Program:
    """Expressions in INPUTS as a program; what they have in common is computed once."""
    whole = sp.Tuple(*exprs)
    averages = {  # over one variance: cse must not look into an average, whose variable is bound
        average: sp.Function(f"average{k}")(*average.free_symbols)
        for k, average in enumerate(sorted(whole.atoms(Moment), key=sp.default_sort_key))
    }
    shared, reduced = _share(fold(whole.xreplace(averages)))
    translation = _Translation()
    for name, expr in shared:
        translation.symbols[name] = translation.operand(expr)
    program = translation.program
    program.outputs = tuple(map(translation.operand, reduced))
    written_out = {call: average for average, call in averages.items()}
    program.small = {expr.xreplace(written_out): name for expr, name in program.small.items()}
    return program


class _Translation:
    """Appends instructions to a program; `operand` returns the symbol that holds an expression's value."""

    def __init__(self) -> None:
        self.program = Program()
        self.symbols: dict[sp.Basic, sp.Symbol] = {symbol: symbol for symbol in INPUTS}

    def operand(self, expr: sp.Basic) -> sp.Symbol:
        if expr not in self.symbols:
            small = isinstance(expr, sp.Expr) and _is_small(expr)
            self.symbols[expr] = self._small(expr) if small else self._tile(expr)
        return self.symbols[expr]

    def _small(self, expr: sp.Expr) -> sp.Symbol:
        symbol = sp.Symbol(f"small{len(self.program.small)}", real=True)
        return self.program.small.setdefault(expr, symbol)

    def _tile(self, expr: sp.Basic) -> sp.Symbol:
        match expr:
            case sp.Add():
                return self._sum(expr)
            case sp.Mul():
                number, factors = _split(expr)
                return self._product([*factors, number] if number != 1 else factors)
            case sp.Pow(base=base, exp=exponent) if exponent.is_number:
                if abs(exponent) == sp.S.Half:
                    return self._call("sqrt" if exponent > 0 else "rsqrt", base)
                return self._call("pow", base, exponent)
        if type(expr).__name__ in FUNCTIONS:
            return self._call(type(expr).__name__, *expr.args)
        return self._evaluated(expr)

    def _sum(self, expr: sp.Add) -> sp.Symbol:
        first, *rest = _terms(expr)
        total = first
        for term in rest:
            number, factors = _split(term)
            if _is_small(term) or not factors:
                total = self._call("add", total, term)
            elif len(factors) == 1:
                total = self._call("add", total, *factors, factor=number)
            else:
                one, *others = factors
                total = self._call("addcmul", total, one, sp.Mul(*others), factor=number)
        return self.operand(total)

    def _product(self, factors: Sequence[sp.Expr]) -> sp.Symbol:
        # a result of the program comes first, since the next one may take its place
        computed = [factor for factor in factors if not (factor in INPUTS or _is_small(factor))]
        total, *rest = (*computed, *(factor for factor in factors if factor not in computed))
        for factor in rest:
            total = self._call("mul", total, factor)
        return self.operand(total)

    def _call(self, call: str, *args: sp.Expr, factor: sp.Expr = sp.S.One) -> sp.Symbol:
        operands = tuple(map(self.operand, args))
        number = None if factor == 1 else self.operand(factor)
        return self._append(call, operands, number)

    def _evaluated(self, expr: sp.Basic) -> sp.Symbol:
        """A function, a condition or cases, of operands that are symbols or numbers."""
        if isinstance(expr, sp.Piecewise):
            cases = [(self._argument(value), self._argument(when)) for value, when in expr.args]
            reduced = sp.Piecewise(*cases, evaluate=False)
        else:
            reduced = expr.func(*map(self._argument, expr.args))
        operands = sorted(reduced.free_symbols, key=str)
        return self._append(None, tuple(operands), expr=reduced)

    def _argument(self, expr: sp.Basic) -> sp.Basic:
        constant = expr.is_number if isinstance(expr, sp.Expr) else expr in (sp.true, sp.false)
        return expr if constant else self.operand(expr)

    def _append(
        self,
        call: str | None,
        operands: tuple[sp.Symbol, ...],
        factor: sp.Symbol | None = None,
        expr: sp.Basic | None = None,
    ) -> sp.Symbol:
        result = sp.Symbol(f"tile{len(self.program.instructions)}", real=True)
        self.symbols[result] = result
        self.program.instructions.append(Instruction(result, call, operands, factor, expr))
        return result


def _share(exprs: sp.Tuple) -> tuple[list[tuple[sp.Symbol, sp.Basic]], sp.Tuple]:
    """Common subexpressions, without constant factors, and without rows or columns, which are cheap."""
    common, reduced = sp.cse(exprs, list=False)
    replaced: dict[sp.Symbol, sp.Expr] = {}
    assignments = []
    for name, expr in common:
        if not isinstance(expr, sp.Expr):  # a condition
            assignments.append((name, expr.xreplace(replaced)))
            continue
        number, rest = _split_constant(expr.xreplace(replaced))
        if rest.is_Symbol or _is_small(rest):
            replaced[name] = number * rest
        else:
            assignments.append((name, rest))
            replaced[name] = number * name
    return assignments, reduced.xreplace(replaced)


def _terms(expr: sp.Add) -> list[sp.Expr]:
    """Summands in an order in which the first two already have the shape of a tile; constants come last."""
    small = [term for term in expr.args if _is_small(term)]
    rows = sp.Add(*(term for term in small if not term.has(kyy)))
    columns = sp.Add(*(term for term in small if term.has(kyy)))
    large = sorted((term for term in expr.args if term not in small), key=_size)
    if rows.has(kxx):
        parts = [rows, columns, *large]
    else:  # a sum can start from a bias, which is a tensor, but not from a number
        parts = [rows, *large, columns] if rows.has(bias, biases) else [columns, *large, rows]
    return [part for part in parts if part != 0]


def _split(term: sp.Expr) -> tuple[sp.Expr, list[sp.Expr]]:
    """The constant factor, and the factors that are tensors: a row, a column, then tiles."""
    number, rest = _split_constant(term)
    parts = [
        part for factor in sp.Mul.make_args(rest) for part in _ROOT_OF_DET.get(factor, (factor,))
    ]
    row = sp.Mul(*(part for part in parts if _is_small(part) and not part.has(kyy)))
    column = sp.Mul(*(part for part in parts if _is_small(part) and part.has(kyy)))
    tiles = sorted((part for part in parts if not _is_small(part)), key=_size)
    return number, [part for part in (row, column, *tiles) if part != 1]


def _split_constant(expr: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    parts = sp.Mul.make_args(expr)
    plain = [part for part in parts if part.free_symbols <= {scale, weights}]
    return sp.Mul(*plain), sp.Mul(*(part for part in parts if part not in plain))


# In a product, the root of the determinant is two factors, as it is above 0 wherever a tile is trusted: torch
# hands sqrt to a vector library that takes twice as long as rsqrt.
_ROOT_OF_DET = {sp.sqrt(det): (det, 1 / sp.sqrt(det))}


def _distribute_constants(expr: sp.Expr) -> sp.Expr:
    """Distribute constants over the terms of a sum, where a multiply-add applies them at no cost."""
    number, rest = expr.as_independent(*ARGS, as_Add=False)
    if not rest.is_Add:
        return expr
    return sp.Add(*(_distribute_constants(number * term) for term in rest.args))


def _is_small(expr: sp.Expr) -> bool:
    """Whether it is a number, a row or a column, not a whole tile."""
    return any(expr.free_symbols <= {side, *NUMBERS} for side in (kxx, kyy))


def _size(expr: sp.Expr) -> int:
    """A tile is simpler than a product of them."""
    return len(sp.Mul.make_args(expr))


# Second pass: results get memory.


@dataclass(frozen=True)
class Place:
    """Where a result is: the variable that holds it, and the tile it is written to, unless torch chooses."""

    variable: str
    out: str | None


def allocate(program: Program) -> dict[sp.Symbol, Place]:
    """The place of each result: that of an operand needed no more, else the first free scratch tile."""
    last_use = {
        operand: k for k, step in enumerate(program.instructions) for operand in step.operands
    }
    last_use |= dict.fromkeys(program.outputs, len(program.instructions))
    places: dict[sp.Symbol, Place] = {}
    used: dict[sp.Symbol, int] = {}  # scratch tiles in use, by the result that each holds
    for k, step in enumerate(program.instructions):
        operands = dict.fromkeys(step.operands)
        over = [operand for operand in operands if operand in used and last_use[operand] == k]
        if step.call is None:
            places[step.result] = Place(str(step.result), None)
        elif over:
            used[step.result] = used[over[0]]
            variable = places[over[0]].variable
            places[step.result] = Place(variable, variable)
        else:
            number = next(n for n in count() if n not in used.values())
            used[step.result] = number
            places[step.result] = Place(f"scratch{number}", f"{FREE}[{number}]")
        for operand in over:
            del used[operand]
    return places


# Third pass: instructions become Python.


def source(program: Program, places: dict[sp.Symbol, Place]) -> str:
    """The text of a function `layer` of INPUTS and the free tiles."""

    def name(symbol: sp.Symbol) -> str:
        return places[symbol].variable if symbol in places else symbol.name

    lines = [f"def layer({', '.join(symbol.name for symbol in INPUTS)}, {FREE}):"]
    if program.small:
        names = ", ".join(symbol.name for symbol in program.small.values())
        lines.append(f"({names},) = small({', '.join(symbol.name for symbol in INPUTS)})")
    for k, step in enumerate(program.instructions):
        place, operands = places[step.result], list(map(name, step.operands))
        if step.call is None:
            lines.append(f"({place.variable},) = evaluate[{k}]({', '.join(operands)})")
            continue
        if step.factor is not None:
            operands.append(f"{FACTOR[step.call]}={name(step.factor)}")
        lines.append(f"{place.variable} = {step.call}({', '.join(operands)}, out={place.out})")
    lines.append(f"return ({', '.join(map(name, program.outputs))},)")
    return "\n    ".join(lines)


def compile_program(
    program: Program, places: dict[sp.Symbol, Place]
) -> Callable[..., tuple[Tensor, ...]]:
    """The program as a function of INPUTS and the free tiles."""
    evaluate = {
        k: compile_together(step.operands, [step.expr])
        for k, step in enumerate(program.instructions)
        if step.call is None
    }
    small = compile_together(INPUTS, list(program.small))
    defined: dict[str, Callable[..., tuple[Tensor, ...]]] = {}
    exec(source(program, places), {**CALLS, "evaluate": evaluate, "small": small}, defined)
    return defined["layer"]
