r"""Log volumes of deep saturated networks, layer by layer, where no single matrix can represent the Jacobian.

$J = D_L W_L \cdots D_1 W_1$ with $D = \mathrm{diag}(e^l)$. Multiplied out, a row of J is a sum over units,
in which the steep ones leave the flat ones no digits. So the factors are kept apart: from the narrowest
layer on,
$D_l W_l Q_{l-1} = Q_l R_l$ by the QR of `scaled_qr`, and likewise back to the inputs by transposes. The
volume is the product of all $|\det R_l|$, each accurate by itself. `matrix_products` computes the
singular values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from tqdm import trange

from numeric.geometry.matrix_products import Factor, MatrixProduct
from numeric.geometry.scaled_qr import factored
from numeric.models.activation_derivatives import slopes_of
from numeric.models.feature_map import FeatureMap
from numeric.models.hidden_layers import changed, flattens

SAFE = 1e5  # condition up to which a plain QR is right to 1e-10
COPIES, ENTRY = 8, 8  # of a matrix that its factorisation may hold, and bytes of a float64
IDENTITIES = (nn.Identity, nn.Dropout, nn.AlphaDropout)  # in eval mode

Scaled = tuple[
    Tensor, Tensor | None
]  # log scales (n,) and a matrix (n, m), or None for the unit matrix


def recompute_layerwise(
    features: FeatureMap, x: Tensor, rank: Tensor, condition: Tensor, memory: int, progress: bool
) -> Iterator[tuple[int, MatrixProduct]]:
    """Recompute ill-conditioned points layer by layer, if the factors fit into `memory`."""
    stack = LayerStack.of(features, x)
    if stack is None or stack.bytes() > memory:
        return
    doubtful = ~(condition <= SAFE) | (rank < stack.narrowest)
    points = doubtful.nonzero()[:, 0].tolist()
    if not points:
        return
    if x.device.type != "cpu":  # each choice of a pivot would synchronise the device
        layers = ((deepcopy(linear).cpu(), deepcopy(phi).cpu()) for linear, phi in stack.layers)
        stack = LayerStack(tuple(layers))
    inputs = x.detach()[points].flatten(1).cpu()
    for k in trange(len(points), desc="layers", disable=not progress, leave=False):
        if (product := stack.at(inputs[k])) is not None:
            yield points[k], product


@dataclass(frozen=True, eq=False)
class LayerStack:
    """Linear layers, each alone or with an activation whose derivatives are known."""

    layers: tuple[tuple[nn.Linear, nn.Module], ...]

    @classmethod
    def of(cls, features: FeatureMap, x: Tensor) -> LayerStack | None:
        """From a Sequential up to the requested layer; None if it has other parts or points are not flat."""
        body = features.body
        if type(body) is not nn.Sequential or changed(body):
            return None
        parts = dict(body.named_children())
        names = list(parts)
        if features.layer is not None:
            if features.layer not in parts:
                return None
            names = names[: names.index(features.layer) + 1]
        used = [parts[name] for name in names if type(parts[name]) not in IDENTITIES]
        if any(map(changed, used)):
            return None
        flattened = bool(used) and flattens(used[0])
        layers: list[tuple[nn.Linear, nn.Module]] = []
        for part in used[flattened:]:
            if type(part) is nn.Linear:
                layers.append((part, nn.Identity()))
            elif layers and type(layers[-1][1]) is nn.Identity and slopes_of(part) is not None:
                layers[-1] = (layers[-1][0], part)
            else:
                return None
        if len(layers) < 2 or not (flattened or x.shape[1:].numel() == x.shape[-1]):
            return None  # a single layer is one matrix already
        return cls(tuple(layers))

    @property
    def narrowest(self) -> int:
        """The smallest width, inputs and features included: the largest rank the Jacobian can have."""
        return min(size for linear, _ in self.layers for size in linear.weight.shape)

    def bytes(self) -> int:
        """Memory for one point: copies of the largest layer, and two factors for each layer."""
        entries = sum(linear.weight.numel() for linear, _ in self.layers)
        largest = max(sum(linear.weight.shape) for linear, _ in self.layers)
        return ENTRY * (
            entries + self.narrowest * (COPIES * largest + 6 * self.narrowest * len(self.layers))
        )

    def at(self, x: Tensor) -> MatrixProduct | None:
        """The Jacobian at a point (d,), or None if its rank is below the narrowest width."""
        steps = list(self._steps(x.double()))
        widths = [len(x), *(len(logs) for logs, _ in steps)]
        split = widths.index(min(widths))
        ahead = _propagate(steps[split:], widths[split])
        back = _propagate(_transposed(steps[:split]), widths[split])
        if ahead is None or back is None:
            return None
        return MatrixProduct((*(factor.transposed for factor in reversed(back)), *ahead))

    def _steps(self, h: Tensor) -> Iterator[Scaled]:
        for linear, phi in self.layers:
            weights = linear.weight.detach().double()
            z = weights @ h
            z = z if linear.bias is None else z + linear.bias.detach().double()
            logs, h = torch.zeros_like(z), phi(z)
            if (slopes := slopes_of(phi)) is not None:
                scale, slope, _ = slopes(z)
                logs, weights = scale + slope.abs().log(), weights * slope.sign()[:, None]
            yield logs, weights


def _transposed(steps: Sequence[Scaled]) -> Iterator[Scaled]:
    """W^T diag(e^l) from the last layer to the first, each as two matrices with scaled rows."""
    for logs, weights in reversed(steps):
        yield logs, None
        yield logs.new_zeros(weights.shape[1]), weights.mT


def _propagate(steps: Iterable[Scaled], width: int) -> list[Factor] | None:
    """Factors of the product of the steps on all directions of a layer, or None if its rank is deficient."""
    factors: list[Factor] = []
    basis = None
    for logs, weights in steps:
        if basis is None:
            basis = torch.eye(width, dtype=logs.dtype, device=logs.device)
        basis, graded, axes = factored(logs, basis if weights is None else weights @ basis)
        if graded.rank < width:
            return None
        factors.append(Factor(graded.triangle, graded.scales, axes.mT))
    return factors
