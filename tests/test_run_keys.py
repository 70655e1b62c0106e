"""The `key` by which users name what of a run cannot be compared: all calls that take one hold to it."""

import ast
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from torch import nn

import numeric
from numeric import flows
from numeric.inputs import InputError
from numeric.runs.store import checkpoint
from recorded_runs import recorded
from refusals import require_refusals
from short_runs import trained
from test_flows import QUIET, network, small

NET, X, Y = small()
FLOW = {"x": X, "y": Y, "until": 0.01, "tolerance": 1e-2} | QUIET


def follow(**more: object) -> object:
    start = NET(X).detach()
    return flows.follow(
        NET, X, lambda t: start + t * 0.01, until=0.1, tolerance=1e-2, **QUIET | more
    )


CALLS: dict[str, Callable[..., object]] = {
    "integrate": partial(flows.integrate, NET, **FLOW),
    "follow": follow,
    "slide": partial(flows.slide, network(2, 8, 2, phi=nn.ReLU), **FLOW),
    "euler": partial(
        flows.euler, network(2, 8, 2, phi=nn.ReLU), X, Y, until=0.01, steps=2, **QUIET
    ),
    "descend": partial(flows.descend, NET, X, Y, flows.GradientDescent(), steps=1, **QUIET),
    "train": partial(trained, 2),
    "record": partial(recorded, steps=2),
}  # fmt: skip
PARTS = {checkpoint.__name__}  # where the others hand it to


def test_every_call_with_a_key_is_tried() -> None:
    room = Path(numeric.__file__).parent
    trees = (ast.parse(path.read_text("utf-8")) for path in room.rglob("*.py"))
    takers = {
        node.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and "key: str=" in ast.unparse(node.args)
    }
    assert takers == CALLS.keys() | PARTS


@pytest.mark.parametrize("name", CALLS)
def test_a_key_names_the_run(name: str, tmp_path: Path) -> None:
    """The same key takes the run up, another is refused; what is no text is none, nor what has an address."""
    store, call = tmp_path / "run", CALLS[name]
    call(store=store, key="slope 2")
    call(store=store, key="slope 2")
    with pytest.raises(InputError, match=r"another|other"):
        call(store=store, key="slope 3")
    wrong = (None, 2.5, b"slope", f"slope of {trained}")
    require_refusals((f"key={key!r}", partial(call, key=key)) for key in wrong)
