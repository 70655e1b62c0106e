r"""Ensembles of finite networks that are trained together by gradient flow, member by member.

The loss is $\frac w2\sum_i|f(x_i) - y_i|^2$. With w = 1/|G| and data augmented by a group G it is the mean
over orbits, with w = 1 their sum, which runs |G| times as fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, stack_module_state, vmap

from numeric.infinite import Network
from numeric.inputs import (
    ArrayLike,
    InputError,
    as_numbers,
    positive,
    require_instance,
    require_signals,
    whole,
)

__all__ = ["Ensemble"]

Parameters = Mapping[str, Tensor]  # each (members, ...)
CHUNK = 32  # members whose Jacobians are held at once


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Finite networks of one architecture, with parameters stacked; made by `Ensemble.draw`.

    >>> from analytic.activations import relu
    >>> from numeric.infinite import Dense
    >>> drawn = Ensemble.draw(Network([Dense(), relu, Dense()]), 16, 5, shape=(3,))
    >>> drawn(torch.ones(2, 3, dtype=torch.float64)).shape
    torch.Size([5, 2, 1])
    """

    module: nn.Module  # one of them, whose own parameters do not matter
    parameters: Parameters

    @classmethod
    def draw(
        cls,
        net: Network,
        width: int,
        members: int,
        *,
        shape: tuple[int, ...],
        outputs: int = 1,
        seed: int = 0,
        device: str | torch.device = "cpu",
    ) -> Ensemble:
        """Independent random networks of that width, for signals of shape (channels, ...).

        Parameters: those of `net.finite`; `members` 2 at least, the k-th drawn with seed + k. Refused are
        networks that `net.finite` refuses.
        """
        require_instance("net", net, Network, "Network([Dense()])")
        whole("seed", seed, least=0)
        drawn = [
            net.finite(width, seed + k, shape=shape, outputs=outputs, device=device)
            for k in range(whole("members", members, least=2))
        ]
        parameters, _ = stack_module_state(drawn)  # pyrefly: ignore
        return cls(drawn[0], {name: part.detach() for name, part in parameters.items()})

    def __call__(self, x: ArrayLike) -> Tensor:
        """The outputs of every member at signals (n, channels, ...): (members, n, outputs)."""
        signals, _ = require_signals(x)
        with torch.no_grad():
            return vmap(self._one, in_dims=(0, None))(dict(self.parameters), signals)

    def nngp(self, x: ArrayLike) -> Tensor:
        """Every member's mean of f(x) f(y) over its outputs: (members, n, n)."""
        outputs = self(x)
        return outputs @ outputs.mT / outputs.shape[-1]

    def ntk(self, x: ArrayLike) -> Tensor:
        """Every member's tangent kernel, that of its first output: (members, n, n)."""
        signals, _ = require_signals(x)

        def kernel(parameters: Parameters) -> Tensor:
            rows = jacrev(lambda at: self._one(at, signals)[:, 0])(parameters)
            parts = (row.flatten(1) for row in rows.values())
            return torch.stack([part @ part.T for part in parts]).sum(0)

        return vmap(kernel, chunk_size=CHUNK)(dict(self.parameters))

    def trained(
        self, x: ArrayLike, y: ArrayLike, t: float, weight: float = 1.0, steps: int = 100
    ) -> Ensemble:
        """Every member after a time t of the gradient flow on signals x (n, ...) with targets y (n, outputs).

        Parameters: `weight` w above 0 of the loss; `steps` of the Runge-Kutta method of fourth order, whose
        length t w / steps times the largest eigenvalue of the tangent kernel must stay below 2.7. Refused
        are targets of another shape and a training that diverges.
        """
        signals, _ = require_signals(x)
        targets = as_numbers("y", y, "(n, outputs)").to(signals)
        if targets.ndim != 2 or len(targets) != len(signals):
            raise InputError(
                f"y must have shape ({len(signals)}, outputs), but {tuple(targets.shape)} was given."
            )
        t, weight = positive("t", t, zero=True), positive("weight", weight)
        h, steps = t / whole("steps", steps), int(steps)

        def loss(parameters: Parameters) -> Tensor:
            return weight / 2 * (self._one(parameters, signals) - targets).square().sum()

        slopes = vmap(grad(loss))

        def moved(at: Parameters, by: Parameters, scale: float) -> dict[str, Tensor]:
            return {name: part - scale * by[name] for name, part in at.items()}

        now = dict(self.parameters)
        for _ in range(steps):
            a = slopes(now)
            b = slopes(moved(now, a, h / 2))
            c = slopes(moved(now, b, h / 2))
            d = slopes(moved(now, c, h))
            mean = {k: (a[k] + 2 * b[k] + 2 * c[k] + d[k]) / 6 for k in now}
            now = moved(now, mean, h)
        if not all(part.isfinite().all() for part in now.values()):
            raise InputError(f"Training diverges in steps of {h:.3g}: raise steps above {steps}.")
        return replace(self, parameters=now)

    def _one(self, parameters: Parameters, x: Tensor) -> Tensor:
        return functional_call(self.module, dict(parameters), (x,))
