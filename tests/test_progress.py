"""Progress bars are shown where a person watches, and nowhere else."""

import io
import sys

import pytest

from numeric import progress
from numeric.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_for(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a bar writes to a terminal, without waiting; pytest takes stderr back after a fixture."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "DELAY", 0)
    return terminal


def test_a_terminal_shows_what_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal_for(monkeypatch)
    assert list(progress_bar(range(3), of="networks")) == [0, 1, 2]
    assert "networks" in shown.getvalue()


def test_a_bar_is_moved_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal_for(monkeypatch)
    with progress_bar(of="points", total=8, initial=2) as bar:
        bar.update(6)
        assert bar.n == 8
        bar.refresh()  # it is drawn ten times a second at most, and this took less
    assert "8/8" in shown.getvalue()


@pytest.mark.parametrize("silence", ["argument", "environment", "file"])
def test_nothing_is_written_where_nobody_watches(
    monkeypatch: pytest.MonkeyPatch, silence: str
) -> None:
    shown = terminal_for(monkeypatch)
    if silence == "environment":
        monkeypatch.setenv("TQDM_DISABLE", "1")
    if silence == "file":
        monkeypatch.setattr(Terminal, "isatty", lambda self: False)
    assert list(progress_bar(range(3), of="networks", show=silence != "argument")) == [0, 1, 2]
    assert shown.getvalue() == ""
