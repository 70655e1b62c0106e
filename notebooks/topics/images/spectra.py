"""What networks make of images: spectra of the metric at a layer, volumes, classes and entropies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from notebooks.topics.statistics import Array
from numeric import geometry
from numeric.experiments.images import Fields
from numeric.geometry import MetricSpectrum

FEATURES = "features"  # the layer of the representation
HIDDEN = "1"  # the layer of the shallow network whose metric is taken
STAGES = {"stage 1": "features.layer1", "stage 2": "features.layer2", FEATURES: FEATURES}
FLAT, SPHERE, TEN = "flat", "sphere", "ten largest"  # metrics of features
EMBEDDED = {name: f"{name}, embedding" for name in (FLAT, SPHERE)}  # of what the loss sees
ENTRIES = 2**25  # of Jacobians at a time: a quarter of a gigabyte

Spectrum = Callable[[nn.Module, Tensor], MetricSpectrum]  # of a model, at images (n, ...)
Volume = Callable[[nn.Module, Tensor], Tensor]  # of a model, at images: log volumes (n,)


def volume_at(layer: str) -> Volume:
    """log sqrt(det g) of the metric at a layer, over the directions that count."""

    def measure(model: nn.Module, x: Tensor) -> Tensor:
        return geometry.log_volume(model, x, layer=layer, progress=False).value

    return measure


def spectrum_at(layer: str) -> Spectrum:
    """Logs of the singular values of the Jacobian at a layer, each with all digits."""

    def measure(model: nn.Module, x: Tensor) -> MetricSpectrum:
        return geometry.spectrum(model, x, layer=layer, progress=False)

    return measure


def feature_spectrum(model: nn.Module, x: Tensor) -> MetricSpectrum:
    """The same at the layer of features, many times faster where points lack rank."""
    return metric_spectra(model.get_submodule(FEATURES), None, x)[FLAT]


def metric_spectrum(name: str) -> Spectrum:
    """Of features in the flat metric, in that of the sphere, or of its ten largest directions alone."""
    return lambda model, x: metric_spectra(model.get_submodule(FEATURES), None, x)[name]


def metric_spectra(
    features: nn.Module, head: nn.Module | None, x: Tensor
) -> dict[str, MetricSpectrum]:
    """In all metrics that are compared, from one Jacobian a point; with a head, those of embeddings too."""
    parts = []
    for chunk in _chunks(features, x):
        f, jacobian = _with_jacobian(features, chunk)
        jacobians = {FLAT: jacobian, SPHERE: _on_sphere(f, jacobian)}
        if head is not None:
            z, of_head = _with_jacobian(head, f)
            embedding = of_head @ jacobian
            jacobians |= {EMBEDDED[FLAT]: embedding, EMBEDDED[SPHERE]: _on_sphere(z, embedding)}
        parts.append({name: _log_singular(one) for name, one in jacobians.items()})
    logs = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    logs[TEN] = logs[FLAT][:, :10]
    return {name: _spectrum(one) for name, one in logs.items()}


def _chunks(module: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    """So many points at a time that their Jacobians have no more than ENTRIES numbers."""
    with torch.no_grad():
        count = module.eval()(x[:1]).numel() * x[0].numel()
    return x.split(max(1, ENTRIES // count))


def _with_jacobian(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs (m, p) and their derivatives (m, p, d), in evaluation mode: a pass back for each output.

    A pass takes all points at once, since none of them sees another.
    """
    points = x.detach().requires_grad_()
    out = module.eval()(points)
    rows = [
        torch.autograd.grad(out[:, k].sum(), points, retain_graph=True)[0].flatten(1)
        for k in range(out.shape[1])
    ]
    return out.detach(), torch.stack(rows, 1)


def _on_sphere(f: Tensor, jacobian: Tensor) -> Tensor:
    """Of f/|f|: what of the Jacobian is orthogonal to f, over the length of f."""
    length = f.norm(dim=1)[:, None, None]
    z = f[:, :, None] / length
    return (jacobian - z @ (z.mT @ jacobian)) / length


def _log_singular(jacobian: Tensor) -> Tensor:
    """Right to the digits that the condition number leaves; -inf where they are rounding."""
    values = torch.linalg.svdvals(jacobian)
    rounding = values[:, :1] * max(jacobian.shape[1:]) * torch.finfo(values.dtype).eps
    return torch.where(values > rounding, values, 0).log()


def _spectrum(logs: Tensor) -> MetricSpectrum:
    rank = logs.isfinite().sum(1)
    least = logs.gather(1, (rank - 1).clamp(min=0)[:, None])[:, 0]
    return MetricSpectrum(logs, rank, (logs[:, 0] - least).exp())


def volume(spectrum: MetricSpectrum) -> Tensor:
    """The log of the product of the nonzero singular values, (n,)."""
    logs = spectrum.log_singular
    return torch.where(logs > -math.inf, logs, 0).sum(1)


@dataclass(frozen=True, eq=False)
class DrawnFields:
    """What pictures show at images: log10 of the volume, predicted class, entropy from 0 to 1; (n,) each."""

    volume: Array
    prediction: Array
    entropy: Array

    @classmethod
    def of(cls, model: nn.Module, spectrum: Spectrum, x: Tensor) -> DrawnFields:
        """Of a classifier at images, with the metric of a spectrum."""
        singular = spectrum(model, x)
        with torch.no_grad():
            logits = model(x)
        at = Fields(singular.log_singular.cpu(), singular.condition.cpu(), logits.cpu())
        volume = at.log_volume / math.log(10)
        return cls(volume.numpy(), at.prediction.numpy(), at.entropy.numpy())
