"""The pad: handles stay in their box, points come and go, both speak in frames, and drive a panel."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes

from analytic.expressions.arguments import InputError
from notebooks.panels import Caption, Look, Panel, Slider, pad

TWO = ((1.0, 0.5), (-1.0, 0.25))
WIDE = pad.Box(-3, 3, -1, 1)


def handles(**changes: object) -> pad.Handles:
    return pad.Handles("p", "points", **{"start": TWO, **changes})


def test_a_widget_starts_where_it_is_told_and_keeps_pairs() -> None:
    widget = handles().widget()
    assert widget.value == [[1.0, 0.5], [-1.0, 0.25]]
    widget.value = ((0, 1), (2, -2))  # tuples and whole numbers will do
    assert widget.value == [[0.0, 1.0], [2.0, -2.0]]
    assert all(type(v) is float for place in widget.value for v in place)


def test_what_the_page_is_told_is_plain_data() -> None:
    control = handles(limits=WIDE, box=pad.Box(-2, 2, 0, 1), mark=pad.Mark.ARROW, names=("a", "b"))
    state = control.widget().get_state()
    sent = {k: state[k] for k in ("limits", "box", "free", "arrows", "names", "step", "value")}
    assert json.loads(json.dumps(sent)) == {
        "limits": [[-3, 3], [-1, 1]],
        "box": [[-2, 2], [0, 1]],
        "free": [True, True],
        "arrows": True,
        "names": ["a", "b"],
        "step": 0.05,
        "value": [[1.0, 0.5], [-1.0, 0.25]],
    }


@pytest.mark.parametrize(
    ("moves", "free"),
    [
        (pad.Moves.FREELY, [True, True]),
        (pad.Moves.SIDEWAYS, [True, False]),
        (pad.Moves.UPRIGHT, [False, True]),
    ],
)
def test_moves_say_which_axes_are_free(moves: pad.Moves, free: list[bool]) -> None:
    assert handles(moves=moves).widget().free == free


def test_handles_never_leave_their_box() -> None:
    widget = handles(limits=WIDE, box=pad.Box(-2, 2, 0, 1)).widget()
    widget.value = [[5.0, -1e300], [-2.0, 1.0]]
    assert widget.value == [[2.0, 0.0], [-2.0, 1.0]]


@pytest.mark.parametrize(
    "value", [[[1.0, 2.0]], [[0.0, 1.0], [1.0]], [[0.0, 1.0], [float("nan"), 0.0]], []]
)
def test_a_wrong_value_is_refused_and_the_old_one_kept(value: list[list[float]]) -> None:
    widget = handles().widget()
    with pytest.raises(InputError, match="2 handles and needs as many finite pairs"):
        widget.value = value
    assert widget.value == [[1.0, 0.5], [-1.0, 0.25]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start": ()}, "start inside"),
        ({"start": ((9.0, 0.0),)}, "start inside"),
        ({"names": ("one",)}, "2 handles but 1 names"),
        ({"colours": ()}, "0 colours"),
        ({"step": 0.0}, "step above 0"),
        ({"step": float("nan")}, "step above 0"),
    ],
)
def test_wrong_handles_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        handles(**changes)


@pytest.mark.parametrize("sides", [(1, 1, 0, 1), (0, 1, 2, 1), (0, float("inf"), 0, 1)])
def test_an_empty_or_endless_box_is_refused(sides: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="left < right and bottom < top"):
        pad.Box(*sides)


def clicked(**changes: object) -> pad.Points:
    arguments = {"start": ((1.0, 0.5, 0), (-1.0, 0.25, 1)), "kinds": ("a", "b"), "most": 3}
    return pad.Points("p", "points", **arguments | changes)


def test_points_come_and_go_and_keep_their_kinds() -> None:
    widget = clicked(limits=WIDE).widget()
    widget.value = [[5.0, 0.0, 1], [0.0, 1.0, 0], [0.0, -9.0, 1]]
    assert widget.value == [[3.0, 0.0, 1], [0.0, 1.0, 0], [0.0, -1.0, 1]]
    widget.value = []
    assert widget.value == []
    assert clicked().stops() == [clicked().start]
    assert str(clicked().start) == "(1, 0.5) (-1, 0.25)"


@pytest.mark.parametrize(
    "value",
    [[[0, 0]], [[0, 0, 2]], [[0, 0, 0.5]], [[0, 0, -1]], [[0, math.nan, 1]], [[0, 0, 0]] * 4],
)
def test_wrong_points_are_refused_and_the_old_ones_kept(value: list[list[float]]) -> None:
    widget = clicked().widget()
    with pytest.raises(InputError, match=r"at most 3 points \[x, y, kind\] with kinds below 2"):
        widget.value = value
    assert widget.value == [[1.0, 0.5, 0], [-1.0, 0.25, 1]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kinds": ()}, "needs a kind"),
        ({"colours": ("red",)}, "a colour for each"),
        ({"most": 0}, "most >= 1"),
        ({"step": 0.0}, "step > 0"),
        ({"start": ((9.0, 0.0, 0),)}, "start inside"),
        ({"start": ((1.0, 0.0, 2),)}, "kinds below 2"),
        ({"most": 1}, "at most 1 points"),
    ],
)
def test_wrong_clicks_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        clicked(**changes)


def test_stops_move_the_first_handle_only_and_hold_the_start() -> None:
    for moves, axis in ((pad.Moves.FREELY, 0), (pad.Moves.UPRIGHT, 1)):
        control = handles(moves=moves)
        stops = control.stops()
        assert control.start in stops
        assert {stop[1] for stop in stops} == {TWO[1]}
        assert {stop[0][1 - axis] for stop in stops} == {TWO[0][1 - axis]}
        along = [stop[0][axis] for stop in stops]
        assert along == sorted(set(along))
        assert (along[0], along[-1]) == (-2.0, 2.0)


def test_a_tour_is_followed_and_begins_at_the_start_if_it_misses_it() -> None:
    tour = ((0.0, 1.0), (-1.0, 0.0))
    assert [stop[0] for stop in handles(tour=tour).stops()] == [TWO[0], *tour]
    assert [stop[0] for stop in handles(tour=(*tour, TWO[0])).stops()] == [*tour, TWO[0]]


def test_places_read_well() -> None:
    assert str(handles(start=((1, 0), (-(3**0.5) / 2, 0.5))).start) == "(1, 0) (-0.866, 0.5)"


def stretch(p: list[list[float]], k: float) -> np.ndarray:
    return np.array(p) * (1, k)


def draw(axes: list[Axes], points: np.ndarray) -> Caption:
    if not axes[0].lines:
        axes[0].plot([], [], "o")
        axes[0].set(xlim=(-3, 3), ylim=(-3, 3))
    axes[0].lines[0].set_data(*points.T)
    return Caption("p", f"sum {points[:, 1].sum():.3f}")


@pytest.fixture
def panel() -> Panel:
    return Panel(
        stretch, Look(draw, (handles(), Slider("k", "k", 1.0, 2.0, 0.5, 1.0)), ("places",))
    )


def test_a_panel_redraws_when_a_handle_moves_and_resets(panel: Panel) -> None:
    image, numbers = panel.picture, panel.view.children[2]
    before = image.value
    panel.widgets["p"].value = [[0.0, 1.0], [1.0, 1.0]]
    assert "sum 2.000" in numbers.value
    assert image.value != before
    panel.reset()
    assert panel.widgets["p"].value == [[1.0, 0.5], [-1.0, 0.25]]
    assert "sum 0.750" in numbers.value
    assert image.value == before


def test_frames_hold_every_stop_with_a_readable_label(panel: Panel) -> None:
    page = panel.frames()
    frames = json.loads(re.search(r"const frames = (\{.*?\}), root", page, re.DOTALL)[1])
    labels = [frame["label"] for frame in frames["p"]]
    assert labels[0] == "points = (-2, 0.5) (-1, 0.25)"
    assert len(set(labels)) == len(labels) == len(handles().stops())
    assert len({frame["picture"] for frame in frames["p"]}) == len(labels)


def test_the_script_goes_with_the_widget_and_asks_for_nothing() -> None:
    script = Path(pad.__file__).with_name("pad.js").read_text("utf-8")
    assert handles().widget().get_state()["_esm"] == script
    addresses = set(re.findall(r"https?://[^\"']+", script))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not a place
    assert not re.search(r"\b(import|fetch|XMLHttpRequest)\b", script)
