"""Calls that must be refused: their messages, and how a notebook quotes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from IPython.display import Markdown

from analytic.expressions.arguments import InputError


def refusals(*calls: Callable[[], Any]) -> list[str]:
    """The messages of those calls that are refused, in order."""
    messages = []
    for call in calls:
        try:
            call()
        except InputError as refusal:
            messages.append(str(refusal))
    return messages


def quote(messages: Iterable[str]) -> Markdown:
    return Markdown("\n".join(f"> {message}\n" for message in messages))
