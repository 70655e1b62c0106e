"""The catalogue and the ledger on the command line: list, show, eval, ledger."""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Sequence
from pathlib import Path

from analytic.catalogue import catalogue
from analytic.console import add_command, exit_code
from analytic.expressions.arguments import InputError, need
from analytic.expressions.symbols import MEANING


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m analytic", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    sub = add_command(
        commands, "list", _list, "names of all closed forms, or of those that match a pattern"
    )
    sub.add_argument("pattern", nargs="?", default="*", help="such as 'nngp.*.ricci' or 'gelu'")
    sub = add_command(
        commands, "show", _show, "LaTeX, arguments, source and ledger entries of a closed form"
    )
    sub.add_argument("name")
    sub = add_command(
        commands,
        "eval",
        _eval,
        "the value of a closed form; the number stands alone on the last line",
    )
    sub.add_argument("name")
    sub.add_argument(
        "values", nargs="*", metavar="ARGUMENT=VALUE", help="such as d=3 sigma=1/3 r=0.1"
    )
    sub.add_argument("--digits", default="30", help="how many digits (30)")
    sub = add_command(commands, "ledger", _ledger, "write LEDGER.md and print its headline")
    sub.add_argument("--output", type=Path, default=Path("LEDGER.md"))
    args, rest = parser.parse_known_args(argv)
    if rest and not (
        hasattr(args, "values") and all("=" in word and word[0] != "-" for word in rest)
    ):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:  # argparse leaves over values that follow an option
        args.values += rest
    return exit_code(lambda: args.run(args))


def _list(args: argparse.Namespace) -> None:
    pattern = args.pattern if set(args.pattern) & set("*?[") else f"*{args.pattern}*"
    names = fnmatch.filter(catalogue, pattern)
    if not names:
        raise InputError(f"No closed form matches {args.pattern!r}: try `list` without a pattern.")
    print("\n".join(names))


def _show(args: argparse.Namespace) -> None:
    from analytic.ledger import LEDGERS, load

    formula = catalogue[args.name]
    print(formula.name, "=", formula.latex, sep="\n")
    print("\narguments")
    for symbol in formula.args:
        print(f"  {symbol.name:6} {MEANING[symbol.name]}; {need(symbol)}")
    for condition in formula.domain.conditions:
        print(f"  where  {condition}")
    print(f"\nsource  {formula.citation}")
    entries = [e for p in LEDGERS for e in load(p).entries if formula.name in e.code]
    print(
        "ledger ",
        ", ".join(f"{e.id} ({e.verdict.value})" for e in entries) or "no entry of its own",
    )


def _eval(args: argparse.Namespace) -> None:
    values = {}
    for pair in args.values:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"{pair!r} is no argument: write ARGUMENT=VALUE, such as d=3.")
        if name in values:
            raise InputError(f"{name} was given twice.")
        values[name] = value
    if not args.digits.isdecimal() or int(args.digits) < 1:
        raise InputError(
            f"--digits {args.digits} was given, but it must be a whole number at least 1."
        )
    digits = int(args.digits)
    print(catalogue[args.name].evaluate(digits, **values))


def _ledger(args: argparse.Namespace) -> None:
    from analytic.ledger.render import headline, markdown

    try:
        with args.output.open("a"):  # refused now, not after the seconds that every route takes
            pass
        args.output.write_text(markdown(), "utf-8")
    except OSError as error:
        raise InputError(
            f"{args.output} cannot be written ({error.strerror}): give --output."
        ) from None
    print(f"{headline()}\nwritten to {args.output}")


if __name__ == "__main__":
    sys.exit(main())
