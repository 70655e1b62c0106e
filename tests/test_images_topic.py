"""What notebooks 17 to 19 compute of images, against the geometry engine, and what their pictures show."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from moves import check_moves
from notebooks import panels
from notebooks.topics import images as topic
from notebooks.topics import images_figures as figures
from notebooks.topics.images import evidence, networks, self_supervision, spectra
from notebooks.topics.images import panels as image_panels
from notebooks.topics.images.films import as_picture
from numeric import data, geometry
from numeric.data import Split
from numeric.experiments.class_changes import Evidence
from numeric.learned.two_views import OnSphere, projector
from numeric.models import cifar_resnet
from refusals import require_refusals


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(scope="module")
def digits() -> Split:
    return topic.images_of("")


def log10_volume(model: nn.Module, x: Tensor, layer: str | None = None) -> Tensor:
    return geometry.log_volume(model, x, layer=layer, progress=False).value / math.log(10)


def test_volumes_of_features_and_embeddings_are_those_of_the_engine(
    digits: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flat, on the sphere and of ten directions, from one Jacobian through batch normalisation."""
    features = networks.small_resnet(topic.GELU, 3).double().eval()
    model = projector(features, features.features, (20, 12), 3).eval()
    one = self_supervision.probed(model, digits.train.take(slice(0, 200)))
    x = digits.test.inputs(slice(0, 3), dtype=torch.float64)
    monkeypatch.setattr(spectra, "ENTRIES", 2 * 16 * 64)  # two points at a time
    found = spectra.metric_spectra(one.classifier.features, one.head, x)

    def engine(module: nn.Module) -> geometry.MetricSpectrum:
        return geometry.spectrum(module, x, progress=False)

    flat = engine(features)
    expected = {
        topic.FLAT: flat, topic.SPHERE: engine(OnSphere(features)),
        topic.TEN: spectra.MetricSpectrum(flat.log_singular[:, :10], flat.rank.clamp(max=10), flat.condition),
        topic.EMBEDDED[topic.FLAT]: engine(model), topic.EMBEDDED[topic.SPHERE]: engine(OnSphere(model)),
    }  # fmt: skip
    assert set(found) == set(expected)
    for name, right in expected.items():
        assert torch.equal(found[name].rank, right.rank)
        # Condition numbers of some hundreds cost three of sixteen digits.
        torch.testing.assert_close(
            found[name].log_singular, right.log_singular, rtol=1e-12, atol=1e-12
        )
    assert expected[topic.SPHERE].rank.tolist() == [15] * 3
    torch.testing.assert_close(found[topic.FLAT].condition, flat.condition, rtol=1e-9, atol=0)
    for name in (topic.FLAT, topic.SPHERE, topic.TEN):
        shown = topic.metric_spectrum(name)(one.classifier, x)
        assert torch.equal(shown.log_singular, found[name].log_singular)


def test_rank_that_relu_loses_is_no_rounding(digits: Split) -> None:
    """Features that are zero throughout have a log of -inf, and count neither in volume nor in condition."""
    features = networks.small_resnet(topic.RELU, 0).double().eval()
    features.stages[-1][-1].bn2.bias.data[:3] -= 1e3  # three features of 16 are off
    model = networks.classifier(features, 0).double().eval()
    found = topic.feature_spectrum(model, digits.test.inputs(slice(0, 2), dtype=torch.float64))
    assert (found.rank <= 13).all()
    assert (found.log_singular.isneginf().sum(1) == 16 - found.rank).all()
    assert found.condition.isfinite().all()
    assert spectra.volume(found).isfinite().all()


def test_planes_have_their_images_at_the_corners(digits: Split) -> None:
    net = topic.shallow(64, 70, 10, 0).double()
    x = topic.flat_inputs(digits.test, dtype=torch.float64)
    rows = topic.rows_of(digits.test, (7, 6, 1))
    assert [int(digits.test.labels[row]) for row in rows] == [7, 6, 1]
    film = topic.PlaneFilm.of({0: net}, topic.spectrum_at(topic.HIDDEN), digits.test, rows, x, 1)
    order = [np.abs(film.places - corner).sum(1).argmin() for corner in film.corners]
    np.testing.assert_allclose(film.places[order], film.corners, atol=1e-12)
    volume = film.fields[0].volume[order]
    np.testing.assert_allclose(volume, log10_volume(net, x[rows], topic.HIDDEN), rtol=1e-9)
    shown = digits.test.shown(rows)[:, 0].numpy()
    np.testing.assert_allclose(film.pictures, shown, atol=1e-6)  # of float32, normalised and back


def test_contrast_of_a_plane_is_that_of_points_beside_another_class() -> None:
    """On a triangle of two intervals a side: one corner is of another class than the other five points."""
    places = np.array([[0, 0], [0.5, 0], [1, 0], [0.25, 0.433], [0.75, 0.433], [0.5, 0.866]])
    volume = np.array(
        [5.0, 3.0, 0.0, 1.0, 0.5, 0.1]
    )  # the first, and its neighbours: the second and the fourth
    fields = {
        7: topic.DrawnFields(volume, np.array([1, 0, 0, 0, 0, 0]), volume),
        9: topic.DrawnFields(volume, np.zeros(6, int), volume),
    }
    film = topic.PlaneFilm(places, places[[0, 2, 5]], fields, np.zeros((3, 2, 2)), ("a", "b", "c"))
    assert abs(film.contrast(7) - (9 / 3 - 0.6 / 3)) < 1e-12
    assert math.isnan(film.contrast(9))


def test_images_are_those_that_a_network_gets_right_and_too_few_are_refused(digits: Split) -> None:
    sevens = digits.test.of_class(7)
    right = torch.zeros(len(digits.test), dtype=torch.bool)
    right[sevens[:2]] = True
    assert set(topic.rows_of(digits.test, (7, 7), right=right)) == set(sevens[:2].tolist())
    require_refusals({
        "no image that is right": lambda: topic.rows_of(digits.test, (7, 6), right=right),
        "two images, and three asked for": lambda: topic.rows_of(digits.test, (7,) * 3, right=right),
    }.items())  # fmt: skip


def test_the_hill_around_a_class_change_is_found_there() -> None:
    t = torch.linspace(0, 1, 41).double()
    places = torch.tensor([0.3, 0.45, 0.6, 0.7])[:, None]
    hills = torch.exp(-(((t - places) / 0.1) ** 2))
    one = topic.around_change(Evidence((t > places).long(), hills, {"flat": torch.zeros(4, 41)}))
    assert abs(one.distance[np.argmax(one.mean["trained"])]) < 0.05
    assert np.abs(one.mean["flat"]).max() < 1e-12


def test_the_panel_shows_the_image_and_the_volume_of_its_place(digits: Split) -> None:
    panel = panels.Panel(topic.between_digits, figures.DIGITS)
    check_moves(panel, {"place": 0.7, "pair": 3, "epoch": 0})
    panel.move(place=0.25, pair=1, epoch=4)
    line, fields = image_panels.line_between(image_panels.SHALLOW, topic.HIDDEN, 1, 4)
    picture, curve = panel.figure.axes
    shown = as_picture(digits.test, torch.lerp(line[:1], line[-1:], 0.25))[0]
    np.testing.assert_allclose(np.asarray(picture.images[0].get_array()), shown)
    expected = log10_volume(topic.shallow_digits()[4], line, topic.HIDDEN)
    np.testing.assert_allclose(curve.lines[0].get_ydata(), expected)
    assert f"epoch 4, from 4 to 9, here {fields.prediction[8]} with" in panel.numbers


def test_films_of_networks_trained_elsewhere_are_of_images_that_all_get_right(
    tmp_path: Path,
) -> None:
    """The first says 3 of every image, the second of half of them; each is drawn under its own depth."""
    pixels = torch.randint(0, 256, (12, 3, 32, 32), generator=torch.Generator().manual_seed(5))
    records = torch.cat([torch.tensor([[3]] * 11 + [[4]]), pixels.flatten(1)], 1).byte()
    for name in ("data_batch_1.bin", "test_batch.bin"):
        (tmp_path / name).write_bytes(records.numpy().tobytes())
    x = data.cifar10(tmp_path, evidence.IMAGENET).test.inputs()
    nets = {depth: cifar_resnet(depth, seed=depth).eval() for depth in (8, 14)}
    with torch.no_grad():
        for net in nets.values():
            net.linear.weight[[k for k in range(10) if k != 3]] = 0
            net.linear.bias.zero_()
            net.linear.bias[3] = 100
        nets[14].linear.bias[3] = 0
        nets[14].linear.bias[3] = -nets[14](x)[:, 3].median()
    nothing, none = topic.Contrasts({}, {}, False, False), topic.Contrast(0.0, 0.0, 0.0, 2)
    networks_ = [
        topic.PretrainedNetwork("", nothing, 1.0, 64, 64, 64, none, none, depth, net)
        for depth, net in nets.items()
    ]
    films = topic.PretrainedFilms.of(networks_, str(tmp_path), (3, 3, 3), 3, 1)
    shown = pixels.permute(0, 2, 3, 1).numpy() / 255
    seen = [*films.between.pictures[::2], *films.within.pictures[::2], *films.plane.pictures]
    rows = [int(np.abs(shown - picture).max((1, 2, 3)).argmin()) for picture in seen]
    assert (nets[14](x[rows]).argmax(1) == 3).all()
    for depth, net in nets.items():
        expected = log10_volume(net, x[rows[:2]], "pool").numpy()
        np.testing.assert_allclose(films.between.fields[depth].volume[::2], expected, rtol=1e-4)
        assert set(films.plane.fields[depth].prediction) <= ({3} if depth == 8 else {0, 3})
    titles = [axes.get_title() for axes in figures.figure_paths({"": films.within}, "ResNet").axes]
    assert titles[1:] == ["ResNet 8", "ResNet 14"]


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Panels of deep networks without training, another draw for each epoch and kind."""

    def by_epoch(kind: str) -> dict[float, nn.Module]:
        places = (topic.GELU, *topic.OBJECTIVES, topic.SUPERVISED)
        seeds = {epoch: 10 * places.index(kind) + epoch for epoch in topic.DEEP_EPOCHS}
        return {
            epoch: networks.classifier(networks.small_resnet(topic.GELU, seed), seed)
            .double()
            .eval()
            for epoch, seed in seeds.items()
        }

    def from_views(kind: str) -> dict[float, topic.Representation]:
        return {epoch: topic.Representation(net, None) for epoch, net in by_epoch(kind).items()}

    monkeypatch.setattr(image_panels, "deep_digits", by_epoch)
    monkeypatch.setattr(image_panels, "self_supervised", from_views)
    image_panels.line_between.cache_clear()
    yield
    image_panels.line_between.cache_clear()


def test_the_panel_of_residual_networks_shows_the_layer_and_the_epoch(untrained: None) -> None:
    """Stage 1 has more outputs than pixels, features have fewer."""
    panel = panels.Panel(topic.between_deep, figures.DEEP)
    check_moves(panel, {"place": 0.7, "pair": 3, "epoch": 0, "layer": "stage 1"})
    for layer in topic.STAGES:
        panel.move(pair=2, epoch=2, layer=layer)
        line, _ = image_panels.line_between(topic.GELU, layer, 2, 2)
        net = image_panels.deep_digits(topic.GELU)[2]
        expected = log10_volume(net, line, topic.STAGES[layer])
        np.testing.assert_allclose(panel.figure.axes[1].lines[0].get_ydata(), expected, rtol=1e-9)


def test_the_panel_of_features_shows_the_metric_and_the_objective(untrained: None) -> None:
    panel = panels.Panel(topic.between_features, figures.LEARNED)
    moves = {"place": 0.7, "pair": 3, "epoch": 0, "objective": topic.SIMCLR, "metric": topic.SPHERE}
    check_moves(panel, moves)
    panel.move(pair=2, epoch=2, objective=topic.SIMCLR, metric=topic.SPHERE)
    line, _ = image_panels.line_between(topic.SIMCLR, topic.SPHERE, 2, 2)
    net = image_panels.self_supervised(topic.SIMCLR)[2].classifier
    expected = log10_volume(OnSphere(net.features), line)
    np.testing.assert_allclose(panel.figure.axes[1].lines[0].get_ydata(), expected, rtol=1e-9)


def test_paths_are_coloured_by_class_and_contrasts_drawn_with_their_intervals() -> None:
    prediction = torch.tensor([[0] * 5 + [1] * 6, [1] * 7 + [0] * 4, [2] * 3 + [1] * 8])
    evidence = Evidence(prediction, drawn(3, 11), {"untrained": drawn(3, 11, seed=1)})
    one = topic.Contrasts.of(evidence)
    left, _ = figures.figure_contrasts({"by hand": one}).axes
    bars = [line.get_xdata() for line in left.lines if len(line.get_xdata()) == 2]
    drawn_low = sorted(low for low, high in bars if high > low)
    expected = [one.plain["ends"].low, *(c.low for c in one.against["ends"].values())]
    np.testing.assert_allclose(drawn_low, sorted(expected))
    fields = topic.DrawnFields(np.zeros(3), np.array([0, 0, 1]), np.ones(3))
    film = topic.PathFilm(
        np.linspace(0, 1, 3), {0: fields, 5: fields}, np.zeros((3, 4, 4)), ("0", "1")
    )
    _, first, second = figures.figure_paths({"line": film}).axes
    for axes in (first, second):
        assert axes.collections[0].get_array().tolist() == [0, 0, 1]


def test_both_outcomes_of_the_rule_are_told() -> None:
    """A broad hill passes the rule as first stated, and fails where another line changes its class."""
    t = torch.linspace(0, 1, 21).double()
    places = torch.tensor([[0.325], [0.425], [0.575], [0.675]])  # between two points of the lines
    prediction = (t > places).long()
    noise = drawn(4, 21) / 100
    arch = Evidence(prediction, 4 * t * (1 - t) + noise, {"untrained": noise})
    ridge = torch.exp(-(((t - places) / 0.1) ** 2))
    sharp = Evidence(prediction, ridge + noise, {"untrained": noise})
    contrasts = {"arch": topic.Contrasts.of(arch), "ridge": topic.Contrasts.of(sharp)}
    first, _, final = topic.outcomes(contrasts).partition("; with the fourth control")
    assert first.endswith("stands for 2 of 2")
    assert final.endswith("for 1 of 2 (ridge).")
