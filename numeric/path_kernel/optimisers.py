"""Optimisers that torch lacks: leapfrog, backward Euler, and gradient descent with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from numeric.inputs import InputError, number, positive, whole

__all__ = ["SGDW", "BackwardEuler", "Leapfrog"]

DEPTH = 8  # differences that Anderson's acceleration of backward Euler remembers
ULPS = 4  # at which backward Euler has converged, relative to the weights

Closure = Callable[[], Tensor]


class Leapfrog(torch.optim.Optimizer):
    """The midpoint rule w_{s+1} = w_{s-1} - 2 lr g_s, after one step of Euler.

    params: parameters or groups of them, as torch's own optimisers take.
    lr: the step size, at least 0; schedulers may change it.

    It keeps the energy of oscillations, and is unstable where gradient descent decays: small steps, few of
    them.

    >>> w = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
    >>> optimizer = Leapfrog([w], lr=0.25)
    >>> for _ in range(2):
    ...     w.grad = w.detach().clone()
    ...     optimizer.step()
    >>> w.item()  # 1 - 2/4 * 3/4
    0.625
    """

    def __init__(self, params: ParamsT, lr: float) -> None:
        super().__init__(params, {"lr": positive("lr", lr, zero=True)})

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Tensor | None:  # pyrefly: ignore[bad-override]
        """One step by the gradients at hand, or by those that the closure computes; returned is its loss."""
        loss = _loss_of(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                before, now = self.state[p].get("previous"), p.clone()
                if before is None:
                    p.add_(p.grad, alpha=-group["lr"])
                else:
                    p.copy_(before.add_(p.grad, alpha=-2 * group["lr"]))
                self.state[p]["previous"] = now
        return loss


class BackwardEuler(torch.optim.Optimizer):
    """The implicit step w_{s+1} = w_s - lr g(w_{s+1}), solved to rounding.

    params: parameters or groups of them, as torch's own optimisers take.
    lr: the step size, at least 0; schedulers may change it.
    iterations: of the solver, at most.

    `step` needs a closure that clears the gradients, computes the loss and its gradients, and returns the
    loss: it is called several times. Refused is a step whose equation is not solved after so many iterations.
    Gradients of ReLU networks jump, and then it may have no solution: the iterates go from one side of a kink
    to the other for ever, at small steps too.

    >>> w = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
    >>> optimizer = BackwardEuler([w], lr=1.0)
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (w**2).sum() / 2
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item(), round(w.item(), 12)  # the loss before the step, and 1/(1 + lr)
    (0.5, 0.5)
    """

    def __init__(self, params: ParamsT, lr: float, iterations: int = 200) -> None:
        self.iterations = whole("iterations", iterations)
        super().__init__(params, {"lr": positive("lr", lr, zero=True)})

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Tensor:  # pyrefly: ignore[bad-override]
        """One step; returned is the loss at its start."""
        if closure is None:
            raise InputError(
                "BackwardEuler.step needs a closure, since it takes the gradient at the weights that it "
                "looks for: write optimizer.step(closure)."
            )
        with torch.enable_grad():
            loss = closure()
        moving = [
            (p, group["lr"])
            for group in self.param_groups
            for p in group["params"]
            if p.grad is not None
        ]
        start = [p.clone() for p, _ in moving]
        solver = _Anderson()
        point = _flat(start)
        for _ in range(self.iterations):
            image = _flat(
                [w.add(p.grad, alpha=-lr) for w, (p, lr) in zip(start, moving, strict=True)]
            )
            error, size = (image - point).abs().amax(), image.abs().amax()
            if not image.isfinite().all():
                break
            if error <= ULPS * torch.finfo(image.dtype).eps * size:
                _place([p for p, _ in moving], image)
                return loss
            point = solver.next(point, image)
            _place([p for p, _ in moving], point)
            with torch.enable_grad():
                closure()
        _place([p for p, _ in moving], _flat(start))
        raise InputError(
            f"The equation of a step of backward Euler was not solved in {self.iterations} iterations: lower "
            "lr, allow more iterations, or take a smooth activation, since across the kink of a ReLU there "
            "may be no solution; the weights are as before the step."
        )


class SGDW(torch.optim.SGD):
    """torch's SGD with decoupled weight decay: w <- (1 - lr decay) w before the step of the gradients.

    The decay enters no momentum, as in AdamW (Loshchilov and Hutter 2019).

    params: parameters or groups of them, which may have a `decay` of their own.
    lr, momentum, dampening, nesterov, maximize: as `torch.optim.SGD` takes them.
    decay: at least 0.

    >>> w = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
    >>> w.grad = torch.zeros(1, dtype=torch.float64)
    >>> optimizer = SGDW([w], lr=0.5, decay=0.5)
    >>> optimizer.step()
    >>> w.item()
    0.75
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
        *,
        decay: float = 1e-2,
        maximize: bool = False,
    ) -> None:
        positive("lr", lr, zero=True)
        positive("momentum", momentum, zero=True)
        number("dampening", dampening)
        if nesterov and (not momentum or dampening):
            raise InputError(
                f"nesterov was given with momentum = {momentum} and dampening = {dampening}, but "
                "needs a momentum above 0 and no dampening."
            )
        super().__init__(params, lr, momentum, dampening, 0.0, nesterov, maximize=maximize)
        self.defaults["decay"] = positive("decay", decay, zero=True)
        for group in self.param_groups:
            positive("lr", group["lr"], zero=True)
            positive("decay", group.setdefault("decay", decay), zero=True)

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Tensor | None:  # pyrefly: ignore[bad-override]
        """One step by the gradients at hand, or by those that the closure computes; returned is its loss."""
        loss = _loss_of(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.mul_(1 - float(group["lr"]) * group["decay"])
        super().step()
        return loss


def _loss_of(closure: Closure | None) -> Tensor | None:
    """What the closure returns, if there is one; it computes the gradients, too."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


class _Anderson:
    """Anderson's acceleration of a fixed point iteration w = G(w), by the last few differences."""

    def __init__(self) -> None:
        self.points: list[Tensor] = []
        self.residuals: list[Tensor] = []

    def next(self, point: Tensor, image: Tensor) -> Tensor:
        self.points.append(image)
        self.residuals.append(image - point)
        self.points, self.residuals = self.points[-DEPTH:], self.residuals[-DEPTH:]
        if len(self.points) == 1:
            return image
        last = self.residuals[-1]
        differences = torch.stack([last - one for one in self.residuals[:-1]], 1)
        lengths = torch.linalg.vector_norm(differences, dim=0)
        nonzero = lengths > 0
        if not nonzero.any():
            return image
        weights = torch.linalg.lstsq(
            (differences / lengths)[:, nonzero].cpu(), last[:, None].cpu(), driver="gelsd"
        ).solution.to(last)
        moves = torch.stack([image - one for one in self.points[:-1]], 1) / lengths
        return image - (moves[:, nonzero] @ weights)[:, 0]


def _flat(parts: Iterable[Tensor]) -> Tensor:
    return torch.cat([part.flatten() for part in parts])


def _place(parameters: list[Tensor], flat: Tensor) -> None:
    for p, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        p.copy_(part.view_as(p))
