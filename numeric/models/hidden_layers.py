"""Hidden layers phi(W x + b) with derivatives in closed form, recognised in a network."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from numeric.inputs import ArrayLike, InputError, as_numbers
from numeric.models.activation_derivatives import Slopes, slopes_of, slopes_of_activation
from numeric.models.model import Model, ModelLike
from numeric.models.shallow import ShallowNetwork

__all__ = ["HiddenLayer", "changed", "flattens", "hidden_layer"]

OFFSET = 1e-9  # distance from a kink at which phi' is compared on both sides
JUMP = 1e-6  # relative change of phi' that counts as a jump


@dataclass(frozen=True, eq=False)
class HiddenLayer:
    """Features factor phi(w_j.x + b_j) of points (m, d), in float64; `hidden_layer` recognises one."""

    weights: Tensor  # (n, d)
    biases: Tensor  # (n,)
    slopes: Slopes
    factor: float
    name: str  # of phi
    kinks: tuple[float, ...] = (0.0,)  # where phi' may jump
    flattens: bool = False  # whether points of any shape are flattened first

    @classmethod
    def of(cls, model: Model) -> HiddenLayer | None:
        """From a `ShallowNetwork`, or a Linear and an activation at the start of a Sequential; else None."""
        body = model.body
        if isinstance(body, ShallowNetwork):
            return cls._of_shallow(body)
        if type(body) is not nn.Sequential:
            return None
        parts = list(body.named_children())
        flattened = bool(parts) and flattens(parts[0][1])
        parts = parts[flattened:]
        if len(parts) < 2 or (model.layer or parts[-1][0]) != parts[1][0]:
            return None
        linear, activation = parts[0][1], parts[1][1]
        if type(linear) is not nn.Linear or (slopes := slopes_of(activation)) is None:
            return None
        if any(map(changed, (body, *list(body.children())[: 2 + flattened]))):
            return None
        weights = linear.weight.detach().double()
        biases = weights.new_zeros(len(weights)) if linear.bias is None else linear.bias.detach()
        name = type(activation).__name__
        return cls(weights, biases.double(), slopes, 1.0, name, flattens=flattened)

    @classmethod
    def at(cls, model: Model, x: Tensor) -> HiddenLayer | None:
        """The same, if the layer reads all coordinates of points x (n, ...); else None."""
        layer = cls.of(model)
        if layer is None or x.ndim < 2:
            return None
        d, shape = layer.weights.shape[1], x.shape[1:]
        return layer if shape.numel() == d and (layer.flattens or shape[-1] == d) else None

    @classmethod
    def _of_shallow(cls, network: ShallowNetwork) -> HiddenLayer:
        weights, biases = network.weights.detach().double(), network.biases.detach().double()
        if weights.ndim != 2:
            raise InputError(
                f"A stack of networks with weights of shape {tuple(weights.shape)} was given, but one "
                "feature map is needed: take them one by one."
            )
        act = network.activation
        kinks, factor = tuple(map(float, act.kinks)), 1 / math.sqrt(len(weights))
        return cls(weights, biases, slopes_of_activation(act), factor, act.name, kinks)

    def preactivations(self, x: ArrayLike) -> Tensor:
        """(m, d) -> (m, n)."""
        x = as_numbers("x", x)
        if x.ndim != 2:
            raise InputError(f"x must have shape (m, d), but {tuple(x.shape)} was given.")
        if x.shape[1] != self.weights.shape[1]:
            raise InputError(
                f"x has {x.shape[1]} coordinates, but the layer takes {self.weights.shape[1]}."
            )
        if x.device != self.weights.device:
            raise InputError(
                f"x is on {x.device}, but the weights on {self.weights.device}: move one of them."
            )
        return torch.addmm(self.biases, x.double(), self.weights.T)

    def derivatives(self, x: ArrayLike) -> tuple[Tensor, Tensor, Tensor]:
        """log c (m, 1), phi'/c and phi''/c (m, n), with c the largest scale at each point."""
        scale, slope, bend = self.slopes(self.preactivations(x))
        if not torch.isfinite(slope.sum() + bend.sum()):
            raise InputError(
                f"phi' or phi'' of {self.name} is NaN or infinite at some points: mend the weights, or "
                "move the points."
            )
        largest = scale.amax(1, keepdim=True)
        factor = (scale - largest).exp_()
        return largest + math.log(self.factor), slope * factor, bend * factor

    def jacobian(self, x: ArrayLike) -> Tensor:
        """(m, d) -> (m, d, n), features last."""
        log_scale, slope, _ = self.derivatives(x)
        return (log_scale.exp() * slope)[:, None] * self.weights.T

    def jumps(self) -> bool:
        """Whether phi' jumps at a kink, as that of ReLU does."""
        if not self.kinks:
            return False
        kinks = self.weights.new_tensor(self.kinks)[:, None]
        scale, slope, _ = self.slopes(torch.cat([kinks - OFFSET, kinks + OFFSET], 1))
        sides = slope * scale.exp()  # (kinks, 2)
        return bool((sides.diff().abs() > JUMP * sides.abs().amax(1, keepdim=True)).any())


def flattens(part: nn.Module) -> bool:
    """Whether the module flattens points of any shape to (n, d)."""
    return type(part) is nn.Flatten and (part.start_dim, part.end_dim) == (1, -1)


def changed(part: nn.Module) -> bool:
    """Whether hooks or a patched forward change what the module computes, as pruning and weight_norm do."""
    return bool(part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part))


def hidden_layer(model: ModelLike, layer: str | None = None) -> HiddenLayer | None:
    r"""The hidden layer $\phi(W x + b)$ that a model is up to the layer, with closed derivatives; or None.

    Recognised are a `ShallowNetwork`, and a Linear followed by an activation of torch whose derivatives are
    known, at the start of a Sequential, after a Flatten or not. Refused is what `Model.of` refuses.

    >>> net = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 1))
    >>> hidden_layer(net, "1").weights.shape
    torch.Size([5, 2])
    >>> hidden_layer(net) is None
    True
    """
    return HiddenLayer.of(Model.of(model, layer))
