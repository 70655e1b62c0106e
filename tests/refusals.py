"""Wrong calls, tried many at a time: each must end in an InputError of one sentence."""

from collections.abc import Callable, Iterable

from analytic import InputError


def require_refusals(calls: Iterable[tuple[str, Callable[[], object]]]) -> None:
    """Each call, told by its label, is refused in one line that is a sentence, and by nothing else."""
    wrong = {label: outcome for label, call in calls if (outcome := _outcome(call)) is not None}
    assert not wrong, wrong


def _outcome(call: Callable[[], object]) -> str | None:
    """What a call did other than refuse in a sentence."""
    try:
        result = call()
    except InputError as refusal:
        text = str(refusal)
        starts_in_python = text.startswith(("argument of type", "'NoneType'"))
        whole = text.endswith((".", "!", ")", "?")) and "\n" not in text and not starts_in_python
        return None if whole else f"no sentence: {text!r}"
    except Exception as error:  # whatever comes from the depths is what is looked for
        return f"{type(error).__name__}: {error}"
    return f"accepted: {result!r}"
