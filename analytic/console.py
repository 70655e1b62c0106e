"""Shared by the command lines: subcommands, and exit codes with one sentence instead of a traceback."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from analytic.expressions.arguments import InputError

__all__ = ["add_command", "exit_code"]


def add_command(
    commands: argparse._SubParsersAction, name: str, run: Callable[..., int | None], text: str
) -> argparse.ArgumentParser:
    """Add a subcommand; `run` is called with the parsed arguments."""
    sub = commands.add_parser(name, help=text, description=text)
    sub.set_defaults(run=run)
    return sub


def exit_code(job: Callable[[], int | None]) -> int:
    """Run a job and return its exit code: 2 for bad input, 1 for a failed computation, 130 if interrupted."""
    try:
        code = job() or 0
        sys.stdout.flush()
        return code
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ArithmeticError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
