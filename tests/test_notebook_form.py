"""The form of notebooks: Play follows the claim, runs alone, starts at parameters that nothing else binds."""

import ast
import math
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from analytic import InputError
from notebooks.__main__ import _parameters
from notebooks.panels import Panel
from notebooks.panels.controls import Choice, Slider, starting_at
from notebooks.report import anatomy
from notebooks.running import runner
from notebooks.running.numbers import of_panel
from play_cells import SOURCES, Twin, movable, played, twins

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


def test_parameters_are_plain_numbers_where_sliders_move_by_factors(source: runner.Source) -> None:
    """A name would mean a number here and its logarithm there."""
    controls = [one for panel in twins(source) for one in movable(panel)]
    assert not [one.name for one in controls if one.title.startswith(("log", "ln"))]


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
    for panel in panels:
        check_copied_python(panel)


def check_copied_python(panel: Panel) -> None:
    """What a panel gives back as Python computes what it shows, in a process that has imported nothing."""
    *imports, call = panel.as_python().splitlines()
    space: dict[str, Any] = {}
    exec("\n".join(imports), space)
    assert Twin(lambda: eval(call, space), panel.look).caption().numbers == panel.numbers


def test_an_infinite_number_is_copied_as_python_can_read_it() -> None:
    (path,) = runner.find(["09"])
    (panel,) = played(runner.read(path), delta=-math.inf)
    assert "delta=float('-inf')" in panel.as_python()
    check_copied_python(panel)


def test_what_no_option_gives_is_said_beside_the_copied_text() -> None:
    """Arrows and points are no parameters; a panel without them has nothing to say."""
    (path,) = runner.find(["06"])
    (panel,) = played(runner.read(path))
    (arrows,) = (one for one in panel.controls if not hasattr(one, "accept"))
    assert panel.picture.left_out == f"-p has no {arrows.label}: copy as Python for these."
    (path,) = runner.find(["01"])
    (panel,) = played(runner.read(path))
    assert panel.picture.left_out == ""


@pytest.mark.sweep
def test_every_slider_changes_what_a_run_records(source: runner.Source) -> None:
    """So that a sweep over any of them is no row of equal numbers."""
    for panel in twins(source):
        start = {one.name: one.start for one in panel.controls}
        start |= {name: source.defaults[name] for name in start if name in source.defaults}
        before = of_panel(panel.caption(**start).numbers)
        assert before
        for control in movable(panel):
            if panel.look.relevant(control.name, start):
                elsewhere = _elsewhere(starting_at(control, start[control.name]))
                moved = start | {control.name: elsewhere}
                assert of_panel(panel.caption(**moved).numbers) != before, control.name


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
