"""What notebooks 17 to 19 compute of images, against the geometry engine, and what their pictures show."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from moves import check_moves
from notebooks import panels
from notebooks.topics import images as topic
from notebooks.topics import images_figures as figures
from numeric import geometry
from numeric.experiments.class_changes import Evidence, Lines
from numeric.learned.two_views import OnSphere, projector


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(scope="module")
def digits() -> topic.Split:
    return topic.images_of("")


def test_volumes_of_features_and_embeddings_are_those_of_the_engine(
    digits: topic.Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flat, on the sphere and of ten directions, from one Jacobian through batch normalisation."""
    features = topic.small_resnet(topic.GELU, 3).double().eval()
    model = projector(features, features.features, (20, 12), 3).eval()
    one = topic.probed(model, digits.train.take(slice(0, 200)))
    x = digits.test.inputs(slice(0, 3), dtype=torch.float64)
    monkeypatch.setattr(topic, "ENTRIES", 2 * 16 * 64)  # two points at a time
    volumes = topic.feature_volumes(one.classifier, one.head, x)

    def engine(module: nn.Module) -> Tensor:
        return geometry.log_volume(module, x, progress=False).value

    expected = {
        topic.FLAT: engine(features), topic.SPHERE: engine(OnSphere(features)),
        topic.TEN: geometry.spectrum(features, x, progress=False).log_singular[:, :10].sum(1),
        topic.EMBEDDED[topic.FLAT]: engine(model), topic.EMBEDDED[topic.SPHERE]: engine(OnSphere(model)),
    }  # fmt: skip
    torch.testing.assert_close(topic.volume_of_features()(one.classifier, x), expected[topic.FLAT])
    assert set(volumes) == set(expected)
    for name, values in expected.items():
        # Condition numbers of some hundreds, squared in the Gram matrix of the closed form.
        torch.testing.assert_close(volumes[name], values, rtol=1e-9, atol=1e-9)


def test_planes_have_their_images_at_the_corners(digits: topic.Split) -> None:
    at = topic.convex_hull(5)
    weights = topic.barycentric(at)
    assert weights.min() > -1e-12
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(topic.barycentric(topic.CORNERS), np.eye(3), atol=1e-12)
    np.testing.assert_allclose(topic.barycentric(topic.affine_hull(7)).sum(1), 1, atol=1e-12)
    net = topic.shallow(64, 70, 10, 0).double()
    x = topic.flat_inputs(digits.test, dtype=torch.float64)
    rows = topic.rows_of(digits.test, (7, 6, 1))
    assert [int(digits.test.labels[row]) for row in rows] == [7, 6, 1]
    film = topic.PlaneFilm.of(
        {0: net}, topic.volume_at(topic.HIDDEN), digits.test, rows, x, topic.CORNERS
    )
    expected = geometry.log_volume(net, x[rows], layer=topic.HIDDEN, progress=False).value
    np.testing.assert_allclose(film.fields[0].log_volume, expected / math.log(10), rtol=1e-9)
    shown = digits.test.shown(rows)[:, 0].numpy()
    np.testing.assert_allclose(film.pictures, shown, atol=1e-6)  # of float32, normalised and back


def test_entropy_is_one_without_and_zero_with_certainty() -> None:
    x = torch.tensor([[0.0, 0.0, 0.0], [900.0, 0.0, 0.0]], dtype=torch.float64)
    fields = topic.Fields.of(nn.Identity(), lambda _, x: x[:, 0], x)
    np.testing.assert_allclose(fields.entropy, [1, 0], atol=1e-12)
    assert fields.prediction.tolist()[1] == 0


def test_the_hill_around_a_class_change_is_found_there() -> None:
    t = torch.linspace(0, 1, 41).double()
    places = torch.tensor([0.3, 0.45, 0.6, 0.7])[:, None]
    hills = torch.exp(-(((t - places) / 0.1) ** 2))
    one = topic.around_change(Evidence((t > places).long(), hills, {"flat": torch.zeros(4, 41)}))
    assert abs(one.distance[np.argmax(one.mean["trained"])]) < 0.05
    assert np.abs(one.mean["flat"]).max() < 1e-12


def test_the_panel_shows_the_image_and_the_volume_of_its_place(digits: topic.Split) -> None:
    panel = panels.Panel(topic.between_digits, figures.DIGITS)
    check_moves(panel, {"place": 0.7, "pair": 3, "epoch": 0})
    panel.move(place=0.25, pair=1, epoch=4)
    lines, fields = topic._panel_fields("shallow", topic.HIDDEN, 1, 4)
    point = torch.lerp(lines.start, lines.end, 0.25)
    picture, curve = panel.figure.axes
    shown = topic.as_picture(digits.test, point)[0]
    np.testing.assert_allclose(np.asarray(picture.images[0].get_array()), shown)
    model = topic.panel_digits()[4]
    expected = geometry.log_volume(model, lines.x, layer=topic.HIDDEN, progress=False).value
    np.testing.assert_allclose(curve.lines[0].get_ydata(), expected / math.log(10))
    assert f"epoch 4, from 4 to 9, here {fields.prediction[8]} with" in panel.numbers


def test_paths_are_coloured_by_class_and_trials_drawn_with_their_intervals() -> None:
    prediction = torch.tensor([[0] * 5 + [1] * 6, [1] * 7 + [0] * 4, [2] * 3 + [1] * 8])
    evidence = Evidence(prediction, drawn(3, 11), {"untrained": drawn(3, 11, seed=1)})
    one = topic.trial(evidence)
    left, _ = figures.figure_trials({"by hand": one}).axes
    bars = [line.get_xdata() for line in left.lines if len(line.get_xdata()) == 2]
    drawn_low = sorted(low for low, high in bars if high > low)
    expected = [one.plain["ends"].low, *(c.low for c in one.against["ends"].values())]
    np.testing.assert_allclose(drawn_low, sorted(expected))
    fields = topic.Fields(np.arange(3.0), np.array([0, 0, 1]), np.zeros(3))
    film = topic.PathFilm(
        np.linspace(0, 1, 3), {0: fields, 5: fields}, np.zeros((3, 4, 4)), ("0", "1")
    )
    _, first, second = figures.figure_paths({"line": film}).axes
    for axes in (first, second):
        assert axes.collections[0].get_array().tolist() == [0, 0, 1]
    assert Lines(torch.zeros(1, 2), torch.ones(1, 2)).t.shape == (33,)
