"""Pictures of boundaries show what was measured."""

import base64
import io
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from PIL import Image, ImageSequence

from notebooks.panels import style
from notebooks.topics import boundaries
from notebooks.topics import boundaries_figures as figures
from numeric.experiments.decision_boundaries import (
    Curve,
    Evidence,
    GeometryMap,
    Hypothesis,
    Lattice,
    geometry_maps,
    perceptron,
    xor,
)
from numeric.runs import train

FAST = xor().recipe.with_larger_steps(20)
LATTICE = Lattice(1.5, 12)
CORNERS = tuple(part.numpy() for part in xor().data(0))


@pytest.fixture(scope="module")
def fields() -> dict[int, GeometryMap]:
    run = train(perceptron((5, 4)), F.cross_entropy, xor().data(0), FAST.optimizer, steps=100,
                at=(10,), device="cpu", progress=False)  # fmt: skip
    return geometry_maps(run, LATTICE, progress=False)


@pytest.fixture(scope="module")
def film(fields: dict[int, GeometryMap]) -> boundaries.Film:
    return boundaries.Film(boundaries.plane_maps(fields), 1)


@pytest.fixture(scope="module")
def evidence() -> dict[str, Evidence]:
    kind = {"networks": 4, "circles": 8, "recipe": FAST, "device": "cpu"}
    some = Hypothesis(xor(), (3, 10), **kind).run(progress=False)
    return {f"{shape[0]} units": one for shape, one in some.items()}


def maps(figure: Figure) -> list:
    return [axes for axes in figure.axes if axes.images]


@pytest.mark.parametrize("layer", [0, 1])
def test_films_show_layers_from_left_to_right(
    film: boundaries.Film, fields: dict[int, GeometryMap], layer: int
) -> None:
    one = replace(film, layer=layer)
    figure = figures.figure_films({"net": one, "again": one}, figures.VOLUME, CORNERS, unit=10)
    shown = maps(figure)
    assert [axes.get_title() for axes in shown] == ["epoch 0", "epoch 1", "epoch 10"] * 2
    assert [axes.get_ylabel() for axes in shown] == ["net", "", "", "again", "", ""]
    for axes, at in zip(shown, fields.values(), strict=False):
        expected = at.log_volume[layer].numpy() / math.log(10)
        np.testing.assert_allclose(axes.images[0].get_array(), expected)
        assert axes.images[0].origin == "lower"
    norms = {(axes.images[0].norm.vmin, axes.images[0].norm.vmax) for axes in shown}
    assert len(norms) == 1  # a row has one scale
    blue, orange = (part.get_offsets().tolist() for part in shown[0].collections)
    assert blue == [[-1, -1], [1, 1]]
    assert orange == [[-1, 1], [1, -1]]


def test_a_film_moves_as_the_network_learns(
    film: boundaries.Film, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(style, "FOLDER", tmp_path)
    shown = figures.film(film.maps, "net", CORNERS, unit=10).data
    written = (tmp_path / "net.gif").read_bytes()
    assert base64.b64decode(re.search('base64,([^"]+)', shown)[1]) == written
    with Image.open(io.BytesIO(written)) as gif:
        assert gif.n_frames == len(film.maps) == 3
        assert gif.info["loop"] == 0  # for ever
        frames = [np.asarray(one.convert("RGB"), float) for one in ImageSequence.Iterator(gif)]
    # Two layers, two maps each: in every quarter something moves.
    for rows in np.array_split(np.abs(frames[2] - frames[0]), 2, axis=0):
        for part in np.array_split(rows, 2, axis=1):
            assert part.max() > 50


def test_outlines_are_zeros_of_the_margin(fields: dict[int, GeometryMap]) -> None:
    last = fields[100]
    line = boundaries.PlaneMap.of(last).boundary.T
    line = line[~np.isnan(line).any(1)]
    there = torch.cdist(torch.from_numpy(line), last.boundary).amin(1)
    assert len(line) > 10
    assert there.max() < 3 / 11  # a step of the lattice
    flat = replace(last, margin=torch.ones_like(last.margin))
    assert np.isnan(boundaries.PlaneMap.of(flat).boundary).all()


def test_curvature_has_its_sign_and_the_lead_its_own(
    film: boundaries.Film, fields: dict[int, GeometryMap]
) -> None:
    for what, pick in (
        (figures.RICCI, lambda at: at.ricci[1]),
        (figures.LEAD, lambda at: at.margin),
    ):
        one = film if what is figures.RICCI else replace(film, layer=0)
        shown = maps(figures.figure_films({"net": one}, what))
        for axes, at in zip(shown, fields.values(), strict=True):
            np.testing.assert_allclose(axes.images[0].get_array(), pick(at).numpy())
        norm = shown[0].images[0].norm
        assert norm(0.0) == pytest.approx(0.5)
        assert norm.vmin == -norm.vmax


def test_contrasts_are_means_over_networks(evidence: dict[str, Evidence]) -> None:
    figure = figures.figure_contrasts(
        {k: boundaries.contrast_curves(e) for k, e in evidence.items()}
    )
    for axes, one in zip(figure.axes, evidence.values(), strict=True):
        lines = [line for line in axes.lines if line.get_marker() == "o"]
        here, there = one.contrast(Curve.TASK)[..., -1], one.contrast(Curve.DECOY)[..., -1]
        for line, values in zip(lines, (here[0], there[0], here[1]), strict=True):
            np.testing.assert_allclose(line.get_ydata(), values.mean(0))
            np.testing.assert_allclose(line.get_xdata(), np.array(one.steps) / 100)
        assert len(axes.collections) == 3


def test_effects_show_intervals(evidence: dict[str, Evidence]) -> None:
    computed = {name: one.comparisons() for name, one in evidence.items()}
    effects = {
        name: {control: boundaries.Interval.of(one) for control, one in row.items()}
        for name, row in computed.items()
    }
    axes = figures.figure_effects(effects).axes[0]
    bars = [
        line
        for line in axes.lines
        if len(line.get_xdata()) == 2 and line.get_color() != figures.INK
    ]
    every = [one for row in computed.values() for one in row.values()]
    assert len(bars) == len(every) == 6
    for bar, one in zip(bars, every, strict=True):
        np.testing.assert_allclose(bar.get_xdata(), [v.item() for v in one.interval])
    assert [text.get_text() for text in axes.get_yticklabels()] == list(evidence)


def test_profiles_find_a_ridge_and_nothing_in_a_function_of_the_radius(
    evidence: dict[str, Evidence],
) -> None:
    one = next(iter(evidence.values()))
    away, radius = one.away[Curve.TASK][0] / 1.5, one.disc.x.norm(dim=1)
    volumes = -radius.expand_as(one.log_volume).clone()
    volumes[0, :, -1] += 2.0 * (away < 0.2)
    profile = boundaries.profile(replace(one, log_volume=volumes), bins=6)
    axes = figures.figure_profiles({"by hand": profile}).axes[0]
    trained, other, untrained = (
        line.get_ydata() for line in axes.lines if line.get_marker() == "o"
    )
    assert np.abs([other, untrained]).max() < 1e-12
    assert trained[:2].min() > 0.5 > -0.5 > trained[2:].max()  # a third of the axis is 0.2


def test_many_shapes_fill_rows(evidence: dict[str, Evidence]) -> None:
    one = next(iter(evidence.values()))
    curves = boundaries.contrast_curves(one)
    figure = figures.figure_contrasts({str(k): curves for k in range(7)})
    assert [axes.get_visible() for axes in figure.axes] == [True] * 7 + [False] * 3
