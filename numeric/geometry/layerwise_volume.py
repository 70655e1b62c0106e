r"""Log volumes of deep saturated networks, layer by layer, where no single matrix can represent the Jacobian.

$J = D_L W_L \cdots D_1 W_1$ with $D = \mathrm{diag}(e^l)$. Multiplied out, a row of J is a sum over units,
in which the steep ones leave the flat ones no digits. So the factors are kept apart: from the narrowest
layer on,
$D_l W_l Q_{l-1} = Q_l R_l$ by the QR of `scaled_qr`, and likewise back to the inputs by transposes. The
volume is the product of all $|\det R_l|$, each accurate by itself.

The singular values are those of a product of square matrices $A\,\mathrm{diag}(e^h)\,B$ with well conditioned
A and B. With the scales h descending and $B Z = L U$, no entry of
$\mathrm{diag}(e^h) L\,\mathrm{diag}(e^{-h})$ is large, so the QR of its product with A is accurate. Each
factor thus maps an orthonormal basis Z to the next one times a triangle, and a product of triangles keeps
the relative accuracy of each row. Scales are kept as logarithms throughout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from numeric.geometry.jacobians import COPIES, ENTRY
from numeric.geometry.scaled_qr import LARGEST, factored, unit_columns, upper
from numeric.models.activation_derivatives import slopes_of
from numeric.models.hidden_layers import changed, flattens
from numeric.models.model import Model
from numeric.progress import progress_bar

__all__ = ["SAFE", "Factor", "LayerStack", "MatrixProduct", "recompute_layerwise"]

SAFE = 1e5  # condition up to which a plain QR is right to 1e-10
ROUNDS = 8  # of power iteration
GROWTH = 1e6  # largest entry allowed in L, U and the product; relative errors grow by as much
IDENTITIES = (nn.Identity, nn.Dropout, nn.AlphaDropout)  # in eval mode

ScaledMatrix = tuple[
    Tensor, Tensor | None
]  # log scales (n,), and (n, m) or None for the unit matrix


def recompute_layerwise(
    model: Model, x: Tensor, rank: Tensor, condition: Tensor, memory: int, progress: bool
) -> Iterator[tuple[int, MatrixProduct]]:
    """Recompute ill-conditioned points layer by layer, if the factors fit into `memory`."""
    stack = LayerStack.of(model, x)
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
    for k in progress_bar(range(len(points)), of="points, layer by layer", show=progress):
        if (product := stack.at(inputs[k])) is not None:
            yield points[k], product


@dataclass(frozen=True, eq=False)
class LayerStack:
    """Linear layers, each alone or with an activation whose derivatives are known."""

    layers: tuple[tuple[nn.Linear, nn.Module], ...]

    @classmethod
    def of(cls, model: Model, x: Tensor) -> LayerStack | None:
        """From a Sequential up to the requested layer; None if it has other parts or points are not flat."""
        body = model.body
        if type(body) is not nn.Sequential or changed(body):
            return None
        parts = dict(body.named_children())
        names = list(parts)
        if model.layer is not None:
            if model.layer not in parts:
                return None
            names = names[: names.index(model.layer) + 1]
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

    def _steps(self, h: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        for linear, phi in self.layers:
            weights = linear.weight.detach().double()
            z = weights @ h
            z = z if linear.bias is None else z + linear.bias.detach().double()
            logs, h = torch.zeros_like(z), phi(z)
            if (slopes := slopes_of(phi)) is not None:
                scale, slope, _ = slopes(z)
                logs, weights = scale + slope.abs().log(), weights * slope.sign()[:, None]
            yield logs, weights


def _transposed(steps: Sequence[tuple[Tensor, Tensor]]) -> Iterator[ScaledMatrix]:
    """W^T diag(e^l) from the last layer to the first, each as two matrices with scaled rows."""
    for logs, weights in reversed(steps):
        yield logs, None
        yield logs.new_zeros(weights.shape[1]), weights.mT


def _propagate(steps: Iterable[ScaledMatrix], width: int) -> list[Factor] | None:
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


@dataclass(frozen=True, eq=False)
class Factor:
    """A diag(e^h) B."""

    left: Tensor  # (k, k)
    scales: Tensor  # (k,)
    right: Tensor  # (k, k)

    @property
    def transposed(self) -> Factor:
        """The transpose."""
        return Factor(self.right.mT, self.scales, self.left.mT)

    @property
    def inverse(self) -> Factor:
        return Factor(torch.linalg.inv(self.right), -self.scales, torch.linalg.inv(self.left))

    @property
    def log_volume(self) -> float:
        sides = (torch.linalg.slogdet(side).logabsdet for side in (self.left, self.right))
        return (self.scales.sum() + sum(sides)).item()

    def times(self, v: Tensor) -> tuple[float, Tensor]:
        """Log of the length, and direction, of the product with a vector."""
        v = self.right @ v
        logs = self.scales + v.abs().log()
        top = logs.amax()
        v = self.left @ ((logs - top).exp() * v.sign())
        length = v.norm()
        return (top + length.log()).item(), v / length


@dataclass(frozen=True, eq=False)
class MatrixProduct:
    """A product of factors, of which the first is applied first."""

    factors: tuple[Factor, ...]

    @property
    def rank(self) -> int:
        return len(self.factors[0].scales)

    @property
    def log_volume(self) -> float:
        return sum(factor.log_volume for factor in self.factors)

    def log_condition(self) -> float:
        """Log of the condition number, by power iteration with the product and with its inverse."""
        inverse = [factor.inverse for factor in reversed(self.factors)]
        return _log_norm(self.factors) + _log_norm(inverse)

    def log_singular(self) -> Tensor | None:
        """(k,), descending; None where the orders of the factors' scales differ too much for accuracy."""
        basis = torch.eye(len(self.factors[0].scales)).to(self.factors[0].scales)
        logs, rows = basis.new_zeros(len(basis)), basis  # the product is diag(e^logs) rows so far
        for factor in self.factors:
            h, order = factor.scales.sort(descending=True)
            lower, high = _eliminated((factor.right @ basis)[order])
            basis, triangle = torch.linalg.qr(factor.left[:, order] @ (lower * _ratio(h).mT))
            triangle = (triangle * _ratio(h)) @ high
            diagonal = triangle.diagonal()
            rows = (triangle / diagonal.abs()[:, None] * _ratio(logs)) @ rows
            logs = logs + h + diagonal.abs().log()
            largest = torch.stack([lower, high, rows]).abs().amax()
            if not largest < GROWTH:
                return None
        return unit_columns(logs, upper(rows.mT)).log_singular


def _log_norm(factors: list[Factor] | tuple[Factor, ...]) -> float:
    v = torch.ones_like(factors[0].scales)
    v, total = v / v.norm(), 0.0
    for _ in range(ROUNDS):
        total = 0.0
        for factor in (*factors, *(factor.transposed for factor in reversed(factors))):
            log, v = factor.times(v)
            total += log
    return total / 2


def _ratio(logs: Tensor) -> Tensor:
    """e^(l_j - l_i), row i and column j."""
    return (logs - logs[:, None]).clamp(max=LARGEST).exp()


def _eliminated(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """L and U without pivoting: the rows are already in the order of the scales."""
    lower, high = torch.eye(len(matrix)).to(matrix), matrix.clone()
    for k in range(len(matrix) - 1):
        lower[k + 1 :, k] = high[k + 1 :, k] / high[k, k]
        high[k + 1 :] -= lower[k + 1 :, k : k + 1] * high[k]
        high[k + 1 :, k] = 0
    return lower, high
