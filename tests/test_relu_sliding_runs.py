"""Runs of the exact flow of a and b: bad input, going on after a stop, a guard and a bar."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from analytic.expressions.arguments import InputError
from numeric.relu_dynamics import sliding
from numeric.relu_dynamics.sliding import integrator
from test_progress import terminal_for
from test_relu_sliding import flow, net

BAD = {
    "m = 0": ({"a": [], "b": [], "c": []}, "m at least 1"),
    "unequal neurons": ({"b": [1.0]}, "one shape"),
    "a NaN": ({"a": [math.nan, 1.0]}, "NaN or infinite"),
    "an infinite target": ({"y": (1.0, math.inf)}, "NaN or infinite"),
    "a repeated sample": ({"x": (0.5, 0.5)}, "more than once"),
    "no sample": ({"x": (), "y": ()}, "at least 1"),
    "too few targets": ({"y": (1.0,)}, "2 points x and 1 targets"),
    "time 0": ({"end": 0.0}, "time = 0.0"),
    "endless time": ({"end": math.inf}, "time = inf"),
    "alpha below 0": ({"alpha": -1.0}, "alpha = -1.0"),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_told(change: dict[str, Any], message: str) -> None:
    good = {"a": [1.0, -1.0], "b": [0.1, 0.2], "c": [1.0, 1.0], "x": (0.0, 1.0), "y": (1.0, 2.0)}
    with pytest.raises(InputError, match=message):
        flow(**good | {"end": 1.0} | change)


def test_only_times_of_the_run_are_told() -> None:
    solution = flow([1.0], [0.1], [1.0], (0.0, 1.0), (1.0, 2.0), 1.0)
    for time in (-0.1, 1.1, math.nan):
        with pytest.raises(InputError, match="must be a number from 0 to 1"):
            solution.at(time)


def test_a_run_that_was_stopped_goes_on_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c, x, y = net(7, m=30)
    whole = flow(a, b, c, x, y, 20.0)
    path, steps = tmp_path / "run.pt", []

    def stopped(*args: Any) -> Any:
        steps.append(args)
        if len(steps) == 15:
            raise KeyboardInterrupt
        return original(*args)

    original = integrator.step
    monkeypatch.setattr(integrator, "step", stopped)
    with pytest.raises(KeyboardInterrupt):
        flow(a, b, c, x, y, 20.0, store=path)
    resumed = flow(a, b, c, x, y, 20.0, store=path)
    assert len(steps) == len(whole.times)
    again = flow(a, b, c, x, y, 20.0, store=path)
    assert len(steps) == len(whole.times)
    for run in (resumed, again):
        assert run.events == whole.events
        assert torch.equal(run.path, whole.path)
        assert all(torch.equal(p, q) for p, q in zip(run.at(13.7), whole.at(13.7), strict=True))
    with pytest.raises(InputError, match="other settings"):
        flow(a, b, c, x, y, 21.0, store=path)
    path.write_bytes(b"no run")
    with pytest.raises(InputError, match="delete it"):
        flow(a, b, c, x, y, 20.0, store=path)


def test_changes_without_end_would_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mirror images meet their samples at once: two changes in an instant."""
    monkeypatch.setattr(integrator, "STALL", 1)
    with pytest.raises(ArithmeticError, match="for ever"):
        flow([1.0, -1.0], [0.1, 0.1], [1.0, 1.0], (-0.2, 0.2), (5.0, 5.0), 9.0)


def test_a_bar_shows_unless_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c, x, y = net(1)
    shown = terminal_for(monkeypatch)
    flow(a, b, c, x, y, 5.0)
    assert not shown.getvalue()
    sliding.integrate(a, b, c, 1.0, x, y, 5.0)
    assert "time" in shown.getvalue()
