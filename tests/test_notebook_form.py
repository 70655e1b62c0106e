"""The form of notebooks: Play follows the claim, runs alone, starts at parameters that nothing else binds."""

import ast
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from analytic import InputError
from notebooks.__main__ import _parameters
from notebooks.panels.controls import Choice, Slider
from notebooks.report import anatomy
from notebooks.running import runner
from play_cells import SOURCES, movable, played, twins

SCOPES = (
    ast.FunctionDef, ast.ClassDef, ast.Lambda,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip


@pytest.fixture(params=SOURCES, ids=lambda path: path.stem[:2])
def source(request: pytest.FixtureRequest) -> runner.Source:
    return runner.read(request.param)


def test_play_follows_the_claim_and_says_what_is_seen_and_what_to_try(
    source: runner.Source,
) -> None:
    cells = source.node.cells
    headings = [
        heading for cell in cells for heading in re.findall(r"^## (.+)", cell["source"], re.M)
        if cell["cell_type"] == "markdown"
    ]  # fmt: skip
    assert headings[:2] == ["Claim", "Play"]
    assert headings[-1] == "Verdict"
    (play,) = anatomy.tagged(source.node, "play")
    assert len(play["source"].splitlines()) < 15  # a merge of imports would have made it long
    assert play["metadata"]["jupyter"] == {"source_hidden": True}
    prose = cells[cells.index(play) - 1]["source"]
    sentence, _, list_ = prose.removeprefix("## Play\n\n").partition("\n\n")
    assert len(sentence) > 100
    assert len(re.findall(r"^- ", list_, re.M)) == 3
    assert anatomy.tagged(source.node, "verdict")
    assert re.search(r"^\s*record\(", anatomy.tagged(source.node, "verdict")[0]["source"], re.M)


def test_nothing_but_the_parameters_cell_binds_a_parameter(source: runner.Source) -> None:
    """Otherwise Play, run again after the evidence, would start elsewhere."""
    parameters = anatomy.tagged(source.node, "parameters")
    code = (c for c in source.node.cells if c["cell_type"] == "code" and c not in parameters)
    bound = {name for cell in code for name in _bound(ast.parse(cell["source"]))}
    assert not bound & set(source.defaults)


def _bound(tree: ast.AST) -> Iterator[str]:
    """Names that code binds in its own scope."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if not isinstance(node, SCOPES):
            yield from _bound(node)


def test_play_runs_alone_and_starts_at_parameters(source: runner.Source) -> None:
    """After -p with values that sliders show elsewhere; browser tests begin at the defaults."""
    controls = {one.name: one for panel in twins(source) for one in movable(panel)}
    assert set(controls) <= set(source.defaults), "a slider that is no parameter"
    moved = {name: _elsewhere(control) for name, control in controls.items()}
    runner.check([source], moved)
    panels = played(source, **moved)
    for panel in panels:
        assert panel.picture.value
        assert {k: v for k, v in panel.values.items() if k in moved}.items() <= moved.items()
        assert panel.message == ""
    words = shlex.split(
        " ".join(panel.as_parameters() for panel in panels)
    )  # what a panel gives back,
    parameters = _parameters(words[1::2], None)  # `run` takes
    runner.check([source], parameters)
    assert parameters.items() <= moved.items()


def test_defaults_are_where_sliders_may_start(source: runner.Source) -> None:
    runner.check([source], source.defaults)


@pytest.mark.parametrize(
    ("number", "given", "reason"),
    [
        ("01", {"activation": "tanhh"}, "activation must be one of erf"),
        ("01", {"sigma": 1e9}, "sigma must be a number at least 0.001 and at most 1000 here"),
        ("03", {"depth": 1000}, "depth must be a whole number at least 1 and at most 60 here"),
        ("04", {"sigma_w": 0}, "sigma_w must be a number above 0"),
        ("05", {"rho": 1.5}, "rho must be a number from -1 to 1"),
        ("07", {"ridge": -1.0}, "ridge must be a number above 0"),
        ("09", {"delta": float("nan")}, "delta"),
        ("10", {"task": "moons"}, "task must be one of xor"),
    ],
)
def test_what_no_slider_takes_is_refused_before_a_kernel_starts(
    number: str, given: dict[str, Any], reason: str
) -> None:
    (path,) = runner.find([number])
    with pytest.raises(InputError, match=reason):
        runner.check([runner.read(path)], given)


def _elsewhere(control: Slider | Choice) -> Any:
    """The next stop after the start, or the first."""
    stops = control.stops()
    return stops[(stops.index(control.start) + 1) % len(stops)]
