"""Pictures of kernels, ensembles and learning curves show the numbers given; panels move."""

import numpy as np
import pytest
import torch

from moves import check_moves
from notebooks.panels import Panel
from notebooks.topics import augmentation, augmentation_figures, convergence, convergence_figures
from notebooks.topics import equivariance as topic
from notebooks.topics import equivariance_figures as figures
from notebooks.topics.statistics import Mean
from numeric.inputs import InputError


def entries(limit: float, slope: float) -> convergence.Entries:
    """Means that lie on a line in 1/width, with spreads of 1/root width."""
    exact = np.array([1.0, 2.0, 4.0])
    by_width = {
        n: Mean(exact * (limit + slope / n), exact / n**0.5, 0.01 * exact) for n in (4, 8, 16, 32)
    }
    return convergence.Entries(exact, by_width, 100)


def test_a_line_in_one_over_the_width_is_followed_to_its_end() -> None:
    one = entries(1.5, 2.0)
    values, errors = one.extrapolated
    assert values == pytest.approx(1.5 * one.exact)
    assert (errors > 0.01 * one.exact / 3**0.5).all()  # three means, and a slope
    assert entries(1.0, 0.0).law.slope == pytest.approx(-1)
    assert one.sigmas(4) == pytest.approx(100)
    assert one.off(4) == pytest.approx(1.25)
    figure = convergence_figures.figure_bias({"a": {"ntk": one, "nngp": entries(1.0, 0.0)}}, 1)
    bias, flat = figure.axes[0].containers
    assert bias.lines[0].get_ydata() == pytest.approx([1.0, 0.75, 0.625, 0.5625])
    assert flat.lines[0].get_ydata() == pytest.approx(np.zeros(4))


def test_the_panel_of_orbits_moves() -> None:
    panel = Panel(augmentation.orbits, augmentation_figures.PANEL)
    check_moves(panel, {"time": 10.0, "group": "quarter turns"})
    same, circles = panel.figure.axes[0].lines[:2]
    assert circles.get_ydata() == pytest.approx(same.get_ydata(), abs=1e-12)


def test_ensembles_are_judged_by_standard_errors() -> None:
    mean = Mean(np.array([[1.0, 2.0]]), np.ones((1, 2)), np.full((1, 2), 0.5))
    other = Mean(np.array([[1.0, 4.0]]), np.ones((1, 2)), np.full((1, 2), 0.5))
    one = augmentation.FiniteEnsembles(
        np.ones(1), np.array([[1.0, 1.0]]), {"a": mean, "b": other}, {"a": 0.0, "b": 1.0}
    )
    assert (one.sigmas("a"), one.sigmas("b"), one.learned["b"]) == (2, 6, 8)
    assert one.apart == pytest.approx(2 * 2**0.5)


def test_learning_curves_are_those_of_the_kernel() -> None:
    """A kernel that knows the class is always right; one that knows nothing predicts the mean."""
    labels = np.arange(30) % 3
    same = torch.tensor(labels[:20, None] == labels).double()
    grams = topic.Grams({topic.C4: same, topic.CNN: torch.ones(20, 30).double()}, 20, labels)
    found = grams.errors((12, 16), 3, 1e-3, True)
    assert found[topic.C4].mean.tolist() == [1.0, 1.0]
    assert found[topic.CNN].mean.max() < 0.5
    axes = figures.figure_learning({"a": found}, "accuracy").axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["12", "16"]
    machine = grams.machine(topic.C4, torch.arange(12), 1e-3, True)
    at = torch.arange(20, 30)[:, None].double()
    outputs = same[:12, 20:].T @ machine.process_.weights
    torch.testing.assert_close(outputs, machine.decision_function(at))


def test_images_and_charges_are_turned_as_they_should() -> None:
    held = topic.images("", 4, 2, 8)
    one = held.upright[0]
    torch.testing.assert_close(topic.rotate(one, 90.0), torch.rot90(one, 1, (1, 2)))
    assert held.turned(0).shape == held.upright.shape
    sphere = topic.charges(10, 5)
    assert sphere.energies[:10].std() == pytest.approx(1)
    assert sphere.of_the_mean == np.abs(sphere.energies[10:]).mean()
    with pytest.raises(InputError, match="give a larger set"):
        topic.images("", 5000, 2, 8)


def test_molecules_are_sums_over_their_atoms() -> None:
    """Two atoms against one; others are absent."""
    one = torch.zeros(2, 3, 1, 25, dtype=torch.float64)
    one[0, :2, 0, :4] = torch.tensor([[1.0, 2.0, 0.0, 1.0], [0.5, 0.0, 1.0, 3.0]])
    one[1, 0, 0, 1] = 1.0
    grams = topic.sphere_grams(topic.Energies(one, np.array([1.0, 2.0]), 1)).grams
    net = topic.SPHERE_NETWORKS[topic.MLP].ntk
    expected = net(one[0, :2], one[1, :1]).sum()
    torch.testing.assert_close(grams[topic.MLP][0, 1], expected)
