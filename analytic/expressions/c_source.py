"""Expressions as C99 source: the program for arrays runs once on recorded numbers, and is written out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp

from analytic.expressions.arguments import InputError
from analytic.expressions.backends import compile_array, host_symbols, identifier
from analytic.expressions.expectation import Moment, PairMoment
from analytic.expressions.opaque import Opaque
from analytic.expressions.printer import NAMES

__all__ = ["c_source"]

LONGEST = 80  # characters of an expression, beyond which it becomes a variable of its own
RESERVED = (
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum",
    "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict",
    "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union",
    "unsigned", "void", "volatile", "while",
)  # fmt: skip
CALLS = {  # names of numpy and of expressions, and what C99 calls them
    **{name: name for name in NAMES if name not in ("Abs", "sign", "where", "maximum", "minimum")},
    **{name: name for name in ("expm1", "log1p", "erf", "erfc", "hypot")},
    **{"Abs": "fabs", "abs": "fabs", "loggamma": "lgamma", "maximum": "fmax", "minimum": "fmin"},
}


def c_source(name: str, citation: str, args: Sequence[sp.Symbol], expr: sp.Expr) -> str:
    """One function of doubles that does what the program for arrays does, operation by operation."""
    _require_arithmetic(name, expr)
    recorder = Recorder()
    reserved = {*RESERVED, *CALLS.values(), "main"}
    names = [f"{s.name}_" if s.name in reserved else identifier(s.name) for s in args]
    try:
        body, _ = compile_array(args, expr, recorder, recorder.functions())
        result = recorder.number(body(*map(recorder.argument, names)))
    except NotImplementedError as refusal:
        raise InputError(
            f"{name} cannot be written in C: {refusal} Fix arguments with `.at(...)`, or call "
            "`.evaluate(...)`."
        ) from None
    lines, value = recorder.written(result)
    about = ": ".join(part for part in (name, citation) if part).replace("*/", "* /")
    return "\n".join(
        [
            "#include <math.h>",
            "#pragma STDC FP_CONTRACT OFF",
            "",
            f"/* {about} */",
            f"double {identifier(name)}({', '.join(f'double {n}' for n in names) or 'void'})",
            "{",
            *(f"    {line}" for line in lines),
            f"    return {value};",
            "}",
            "",
        ]
    )


def _require_arithmetic(name: str, expr: sp.Expr) -> None:
    """Refuse what is no fixed sequence of operations of C: a quadrature, a recursion, an open degree."""
    for node in sorted(expr.atoms(Moment, PairMoment, Opaque), key=sp.default_sort_key):
        if isinstance(node, Opaque) and node.straight_line:
            continue
        what = node.kind if isinstance(node, Opaque) else "a quadrature"
        raise InputError(
            f"{name} contains {type(node).__name__}, {what}, which C cannot say: call `.numpy`, or take "
            "a formula in closed form."
        )
    hosts = host_symbols(expr).union(*(node.host for node in expr.atoms(Opaque)))
    if hosts:
        symbols = ", ".join(sorted(symbol.name for symbol in hosts))
        raise InputError(
            f"{name} is another program for each value of {symbols}, so C cannot leave it open: fix it "
            f"first, as in `.at({sorted(symbol.name for symbol in hosts)[0]}=2)`."
        )


class Recorded:
    """A number of a program that is being recorded: a C expression in other recorded numbers."""

    def __init__(
        self, recorder: Recorder, template: str, operands: tuple[Recorded, ...], logical: bool
    ) -> None:
        self.recorder, self.template, self.operands = recorder, template, operands
        self.logical = logical  # an int of C instead of a double
        self.index = len(recorder.nodes)

    __hash__ = object.__hash__

    @property
    def dtype(self) -> Any:
        import numpy as np

        return np.dtype(float)

    device = "cpu"

    def __bool__(self) -> bool:
        raise NotImplementedError("it takes a decision that depends on a value.")

    def __float__(self) -> float:
        if self.operands or not self.recorder.is_literal(self):
            raise NotImplementedError("it needs a value while it is compiled.")
        return float(self.template.strip("()"))

    def __neg__(self) -> Recorded:
        return self.recorder.node("-{}", self)

    def __abs__(self) -> Recorded:
        return self.recorder.node("fabs({})", self)

    def __invert__(self) -> Recorded:
        return self.recorder.node("!{}", self, logical=True)

    def __pow__(self, power: Any) -> Recorded:
        if isinstance(power, int | float) and power == 2:
            return self.recorder.node("{} * {}", self, self)
        if isinstance(power, int | float) and power in (0.5, -1):
            return self.recorder.node("sqrt({})" if power == 0.5 else "1.0 / {}", self)
        return self.recorder.node("pow({}, {})", self, power)

    def __rpow__(self, base: Any) -> Recorded:
        return self.recorder.node("pow({}, {})", base, self)


def _operator(symbol: str, logical: bool, reflected: bool = False) -> Callable[..., Recorded]:
    def method(self: Recorded, other: Any) -> Recorded:
        pair = (other, self) if reflected else (self, other)
        return self.recorder.node(f"{{}} {symbol} {{}}", *pair, logical=logical)

    return method


for _name, _symbol in {"add": "+", "sub": "-", "mul": "*", "truediv": "/"}.items():
    setattr(Recorded, f"__{_name}__", _operator(_symbol, logical=False))
    setattr(Recorded, f"__r{_name}__", _operator(_symbol, logical=False, reflected=True))
for _name, _symbol in {
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
}.items():
    setattr(Recorded, f"__{_name}__", _operator(_symbol, logical=True))
for _name, _symbol in {"and": "&&", "or": "||"}.items():
    setattr(Recorded, f"__{_name}__", _operator(_symbol, logical=True))
    setattr(Recorded, f"__r{_name}__", _operator(_symbol, logical=True, reflected=True))


class Recorder:
    """A library of arrays, such as numpy, whose numbers are recorded instead of computed."""

    def __init__(self) -> None:
        self.nodes: dict[tuple[Any, ...], Recorded] = {}

    def node(self, template: str, *operands: Any, logical: bool = False) -> Recorded:
        """The result of an operation; the same operation on the same numbers is recorded once."""
        numbers = tuple(map(self.number, operands))
        key = (template, *(number.index for number in numbers))
        if key not in self.nodes:
            self.nodes[key] = Recorded(self, template, numbers, logical)
        return self.nodes[key]

    def number(self, value: Any) -> Recorded:
        if isinstance(value, Recorded):
            return value
        if isinstance(value, bool):
            return self.node(str(int(value)), logical=True)
        number = float(value)
        if number != number:
            return self.node("NAN")
        if abs(number) == float("inf"):
            return self.node("INFINITY" if number > 0 else "(-INFINITY)")
        return self.node(repr(number) if number >= 0 else f"({number!r})")

    def argument(self, name: str) -> Recorded:
        return self.node(name)

    def is_literal(self, node: Recorded) -> bool:
        return node.template.strip("(-")[:1].isdigit()

    def where(self, condition: Any, yes: Any, no: Any) -> Recorded:
        return self.node("{} ? {} : {}", condition, yes, no)

    def isfinite(self, x: Any) -> Recorded:
        return self.node("isfinite({})", x, logical=True)

    def sign(self, x: Any) -> Recorded:
        return self.node("(double)(({0} > 0.0) - ({0} < 0.0))", x)

    def asarray(self, value: Any, dtype: Any = None, device: Any = None) -> Recorded:
        return self.number(value)

    def ones_like(self, x: Any) -> Recorded:
        return self.number(1.0)

    def __getattr__(self, name: str) -> Any:
        """Functions of C, and what a library of arrays says about the type of its numbers."""
        if name in CALLS:
            return self._call(CALLS[name])
        if name in ("float32", "float64", "finfo"):
            import numpy as np

            return getattr(np, name)
        raise NotImplementedError(f"it calls {name}, which C99 does not have.")

    def _call(self, function: str) -> Callable[..., Recorded]:
        def call(*values: Any) -> Recorded:
            return self.node(f"{function}({', '.join(['{}'] * len(values))})", *values)

        return call

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The functions of expressions by their names in a program."""
        calls = {name: self._call(function) for name, function in CALLS.items()}
        return calls | {"where": self.where, "sign": self.sign}

    def written(self, result: Recorded) -> tuple[list[str], str]:
        """Declarations of the numbers that are used twice or are long, and the result in terms of them."""
        uses: dict[int, int] = {result.index: 1}
        used, pending = {result.index: result}, [result]
        while pending:
            for operand in pending.pop().operands:
                uses[operand.index] = uses.get(operand.index, 0) + 1
                if operand.index not in used:
                    used[operand.index] = operand
                    pending.append(operand)
        lines: list[str] = []
        text: dict[int, str] = {}
        for index in sorted(used):  # operands are recorded before what is made of them
            node = used[index]
            formula = node.template.format(*(text[operand.index] for operand in node.operands))
            text[index] = formula
            if node.operands and node is not result:
                if uses[index] > 1 or len(formula) > LONGEST or node.template.count("{0}") > 1:
                    text[index] = f"t{len(lines)}"
                    kind = "int" if node.logical else "double"
                    lines.append(f"const {kind} {text[index]} = {formula};")
                elif not re.match(r"\w+\(", node.template):
                    text[index] = f"({formula})"
        return lines, text[result.index]
