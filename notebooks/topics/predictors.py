"""Infinite networks as predictors of eight noisy values of a sine: prior, posterior and gradient flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from analytic.activations import erf, gaussian, gelu, relu, sine
from notebooks.topics.statistics import Array
from numeric.infinite import FullyConnected, gradient_flow, posterior
from numeric.infinite.prediction import Prediction

NOISE = 0.01  # the variance of that of the data
LINE = torch.linspace(-2.5, 2.5, 101, dtype=torch.float64)[:, None]
ACTIVATIONS = {"erf": erf, "relu": relu, "gelu": gelu, "gaussian": gaussian, "sine": sine(1)}
BAYES, FLOW = "NNGP posterior", "NTK flow"
_AT = 70  # of LINE, x = 1: in the gap of the data


def truth(x: Any) -> Any:
    return np.sin(1.5 * x + 0.5)


# Eight noisy values of a sine, with a gap.
X = torch.tensor([-1.8, -1.5, -1.1, -0.7, -0.1, 0.2, 1.2, 1.6], dtype=LINE.dtype)[:, None]
Y = torch.from_numpy(truth(X[:, 0].numpy()) + 0.1 * np.random.default_rng(0).standard_normal(8))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Noisy values of a function, and the function itself on a line."""

    x: Array
    y: Array
    line: Array
    truth: Array


DATA = Dataset(X[:, 0].numpy(), Y.numpy(), LINE[:, 0].numpy(), truth(LINE[:, 0].numpy()))


@dataclass(frozen=True, eq=False)
class Band:
    """A Gaussian at every point: mean and standard deviation."""

    mean: Array
    std: Array

    @classmethod
    def of(cls, prediction: Prediction) -> Band:
        return cls(prediction.mean.numpy(), prediction.std.numpy())

    @classmethod
    def at_times(cls, prediction: Prediction) -> tuple[Band, ...]:
        """One band for each time of a prediction at several."""
        pairs = zip(prediction.mean.numpy(), prediction.std.numpy(), strict=True)
        return tuple(cls(mean, std) for mean, std in pairs)


def prior_draws(net: FullyConnected, count: int = 4) -> Tensor:
    """(points, count): networks before training; by the symmetric root, so that they move smoothly."""
    values, vectors = torch.linalg.eigh(net.nngp(LINE))
    normal = torch.randn(len(LINE), count, generator=torch.Generator().manual_seed(1))
    return (vectors * values.clamp(min=0).sqrt()) @ vectors.mT @ normal.to(LINE)


def _prior(net: FullyConnected) -> Band:
    std = net.nngp(LINE).diagonal().sqrt().numpy()
    return Band(np.zeros_like(std), std)


@dataclass(frozen=True, eq=False)
class Predictors:
    """Networks before the data, the posterior, and the flow at several times, on the line."""

    prior: Band
    draws: Array  # (points, networks)
    bayes: Band
    flow: Mapping[float, Band]  # by time


def predictors(
    net: FullyConnected, bayes: Prediction, flow: Prediction, times: Sequence[float]
) -> Predictors:
    bands = dict(zip(times, Band.at_times(flow), strict=True))
    return Predictors(_prior(net), prior_draws(net).numpy(), Band.of(bayes), bands)


@dataclass(frozen=True, eq=False)
class EvidenceMap:
    """The log evidence over both scales, the path of an ascent, and the posterior at both of its ends."""

    sigma_w: Array
    sigma_b: Array
    log_evidence: Array  # (sigma_b, sigma_w)
    path: Array  # (steps, 2)
    ends: tuple[Band, Band]


@dataclass(frozen=True, eq=False)
class NearlySingular:
    """Condition numbers as points are added, and variances between the most of them."""

    sizes: Sequence[int]
    conditions: Mapping[str, tuple[Sequence[float], Sequence[float]]]  # exact, and in floats
    x: Array
    plain: Array  # variances by a plain solution
    suite: Array
    exact: Array


@dataclass(frozen=True, eq=False)
class PanelPredictions:
    """Networks before the data, both predictions on the line, those that are shown, and them at x = 1."""

    prior: Band
    draws: Array  # (points, networks)
    bands: Mapping[str, Band]
    shown: tuple[str, ...]
    at: float
    numbers: Mapping[str, tuple[float, float]]  # mean and standard deviation there


def panel_predictions(
    activation: str, predictor: str, sigma_w: float, sigma_b: float, depth: int, noise: float,
    t: float,
) -> PanelPredictions:  # fmt: skip
    """The noise is that of the posterior, and the ridge of the flow."""
    net = FullyConnected(ACTIVATIONS[activation], depth, sigma_w, sigma_b)
    bayes = posterior(net, X, Y, LINE, noise=noise)
    flow = gradient_flow(net, X, Y, LINE, t=t, ridge=noise)
    bands = {BAYES: Band.of(bayes), FLOW: Band.of(flow)}
    shown = tuple(name for name in bands if predictor in ("both", name))
    numbers = {name: (float(one.mean[_AT]), float(one.std[_AT])) for name, one in bands.items()}
    draws = prior_draws(net).numpy()
    return PanelPredictions(_prior(net), draws, bands, shown, LINE[_AT].item(), numbers)
