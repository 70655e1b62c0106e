"""Pictures of what training points did show the numbers that they are given, and panels what was computed."""

import numpy as np
import pytest

from moves import check_moves
from notebooks.panels import Panel, open_panel
from notebooks.topics import path_kernel as topic
from notebooks.topics import path_kernel_figures as figures
from notebooks.topics.path_kernel import outputs


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.fixture(scope="module")
def attributed() -> topic.AttributionMap:
    return topic.attribution_map(2, 0.1, 6, 3.0, 3.0)


def retrainings() -> topic.Retrainings:
    """Scores that foretell removals to the last digit, and others that say nothing."""
    scores, masks = normal(4, 9), (normal(20, 9, seed=1) > 0).astype(float)
    without = -scores[:, :5]
    said = {"right": scores, "wrong": normal(4, 9, seed=2)}
    kind = {"left_out": np.arange(5), "subsets": masks, "of_subsets": scores @ masks.T}
    return topic.Retrainings(
        normal(4), without=without, scores=said, incomplete={"right": 1e-13, "wrong": 2.0}, **kind
    )


def test_start_and_points_are_the_output_at_every_step(attributed: topic.AttributionMap) -> None:
    now = attributed
    assert abs(now.start + now.added.sum() - now.value) < 1e-12
    assert now.errors["Gauss-Legendre"].max() < 1e-12 < 1e-4 < now.errors["left Riemann sum"].max()
    assert now.regions.shape == (len(now.line), len(now.line))


def test_lines_meet_the_retrained_output_where_nothing_is_changed() -> None:
    now = topic.weighed_point(0.1, 6, 3, 3.0, 3.0)
    at = list(now.weights).index(1.0)
    assert abs(now.retrained[at] - now.lines["derivative"][at]) < 1e-12
    assert now.lines["attribution"][at] == now.lines["derivative"][at]
    slope = np.diff(now.lines["derivative"])[0] / np.diff(now.weights)[0]
    assert slope == pytest.approx(now.derivatives[3])
    chord = (now.retrained[at + 1] - now.retrained[at - 1]) / (
        now.weights[at + 1] - now.weights[at - 1]
    )
    assert abs(chord - slope) < 0.2 * abs(slope)  # a chord of weights 1/2 and 3/2


def test_scores_are_judged_by_ranks() -> None:
    one = retrainings()
    assert one.leave_one_out("right") == pytest.approx(np.ones(4))
    assert one.datamodel("right") == pytest.approx(np.ones(4))
    assert abs(one.datamodel("wrong").mean()) < 0.8
    assert outputs._area(np.array([2.0, 3.0]), np.array([1.0, 2.0])) == 7 / 8


def test_bars_are_the_means_and_all_removals_are_in_sight() -> None:
    one = retrainings()
    first, second, third = figures.figure_scores({"a": one, "b": one}).axes
    assert [bar.get_height() for bar in first.patches[:2]] == [1e-13, 2.0]
    for axes, measure in ((second, one.leave_one_out), (third, one.datamodel)):
        heights = [bar.get_height() for bar in axes.patches[:2]]
        assert heights == pytest.approx([measure(name).mean() for name in one.scores])
    for axes in figures.figure_left_out(one).axes:
        inside = [axes.viewLim.contains(*point) for point in axes.lines[0].get_xydata()]
        assert len(inside) == 20
        assert all(inside)


def test_images_stand_in_the_order_of_what_they_added() -> None:
    added = np.array([[3.0, -2.0], [1.0, 0.5]])
    shape = {
        "images": normal(2, 8, 8),
        "training_images": normal(2, 2, 8, 8),
        "labels": np.array([[1, 2], [3, 4]]),
    }
    kind = {
        "predicted": np.array([1, 3]),
        "actual": np.array([1, 4]),
        "values": normal(2),
        "start": normal(2),
    }
    figure = figures.figure_top_attributions(topic.TopAttributions(added=added, **shape, **kind))
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["1? it is 1", "a 1", "a 2", "3? it is 4", "a 3", "a 4"]
    assert [figure.axes[k].get_xlabel() for k in (1, 2, 4, 5)] == [
        "+3.00",
        "-2.00",
        "+1.00",
        "+0.50",
    ]


def test_planes_are_drawn_upright_and_white_at_zero(attributed: topic.AttributionMap) -> None:
    values = np.add.outer(attributed.line, np.zeros(len(attributed.line)))  # rises with x2
    maps = topic.PlaneMaps(attributed.line, {"one": values, "two": values - 3}, attributed.regions,
                           attributed.points, attributed.labels)  # fmt: skip
    for axes in figures.figure_planes(maps, signed=True).axes[:2]:
        image = axes.images[0]
        assert image.origin == "lower"
        low, high = image.get_clim()
        assert low == -high
        dots = sum(len(line.get_xdata()) for line in axes.lines)
        assert dots == len(attributed.points)
    distance = topic.from_data(maps)
    nearest = np.hypot(*(attributed.points - attributed.line[0]).T).min()
    assert distance[0, 0] == pytest.approx(nearest)


def test_panels_move_and_say_what_was_computed() -> None:
    panel = Panel(topic.attribution_map, figures.PANEL)
    check_moves(panel, {"nodes": 10, "step": 3, "x1": 5.0})
    rebuilt, network = panel.numbers.partition("rebuilt ")[2].split(", network ")
    assert float(rebuilt) == float(network)
    panel.drag((1.0, 4.0))
    assert (panel.values["x1"], panel.values["x2"]) == (1.0, 4.0)
    assert panel.figure.axes[0].lines[0].get_xydata().tolist() == [[1.0, 4.0]]
    other = open_panel(topic.weighed_point, figures.WEIGHED, {"steps": 6})
    check_moves(other, {"point": 4})
    assert len(other.figure.axes[1].lines[0].get_xdata()) == topic.TRAINED
