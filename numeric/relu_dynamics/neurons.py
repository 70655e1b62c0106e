r"""Neurons $f(x) = \frac1\alpha\sum_i c_i[a_i x - b_i]_+$ on a line, in full and in canonical parameters.

Canonical are $r = \frac m\alpha c\sqrt{a^2+b^2}$ and the angle $\theta$ of $(a, -b)$. The same function has
many $(a, b, c)$, one for each invariant $\delta = c^2 - a^2 - b^2$ of training.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from numeric.inputs import (
    ArrayLike,
    InputError,
    as_numbers,
    positive,
    require_float_dtype,
    require_instance,
    require_seed,
    resolve,
    values_on_a_line,
    whole,
)
from numeric.relu_dynamics.gradient import Samples

__all__ = ["Neurons", "require_neurons"]

WIDE = {
    "dtype": torch.float64,
    "device": "cpu",
}  # where neurons are drawn, for any device and dtype


@dataclass(frozen=True, eq=False)
class Neurons:
    r"""m neurons $f(x) = \frac1\alpha\sum_i c_i[a_i x - b_i]_+$ on a line.

    a, b, c: tensors of floats, (m,) each, of one dtype and on one device. alpha: a number above 0.
    Refused are other shapes, NaN and infinite entries. See `drawn`, `pytorch` and `canonical` for ways to
    make them.

    >>> one = torch.ones(1, dtype=torch.float64)
    >>> Neurons(one, 0 * one, 2 * one, alpha=1.0).predict([0.5, 1.0])
    tensor([1., 2.], dtype=torch.float64)
    """

    a: Tensor  # (m,)
    b: Tensor  # (m,)
    c: Tensor  # (m,)
    alpha: float

    def __post_init__(self) -> None:
        parts = (self.a, self.b, self.c)
        if not all(torch.is_tensor(p) and p.is_floating_point() for p in parts):
            kinds = ", ".join(str(getattr(p, "dtype", type(p).__name__)) for p in parts)
            raise InputError(f"a, b and c must be tensors of floats, not {kinds}.")
        shapes = [tuple(p.shape) for p in parts]
        if len(set(shapes)) > 1 or len(shapes[0]) != 1 or shapes[0] == (0,):
            listed = ", ".join(map(str, shapes))
            raise InputError(
                f"a, b and c must have one shape (m,) with m at least 1, not {listed}."
            )
        if len({(p.dtype, p.device) for p in parts}) > 1:
            raise InputError("a, b and c must share a dtype and a device: convert them.")
        if not all(p.isfinite().all() for p in parts):
            raise InputError(
                "a, b or c has entries that are NaN or infinite: remove those neurons."
            )
        positive("alpha", self.alpha)

    @classmethod
    def drawn(
        cls,
        m: int,
        seed: int,
        alpha: float | None = None,
        a: float = 1.0,
        b: float = 1.0,
        c: float = 1.0,
        antisymmetric: bool = False,
        device: str | torch.device = "auto",
        dtype: torch.dtype = torch.float64,
    ) -> Neurons:
        """Each parameter uniform between minus and plus its half-width; alpha = sqrt(m) unless given.

        Antisymmetric ones come in pairs (a, b, c), (a, b, -c), so that f = 0 at the start.

        >>> Neurons.drawn(6, seed=0, antisymmetric=True, device="cpu").predict([0.3]).abs().item() < 1e-15
        True
        """
        whole("m", m, 1)
        require_seed(seed)
        if antisymmetric and m % 2:
            raise InputError(
                f"m = {m} neurons do not make pairs: take {m + 1}, or no antisymmetry."
            )
        widths = [
            positive(f"the half-width {name}", width, zero=True)
            for name, width in (("a", a), ("b", b), ("c", c))
        ]
        require_float_dtype(dtype)
        count = m // 2 if antisymmetric else m
        parts = 2 * torch.rand(3, count, generator=torch.Generator().manual_seed(seed), **WIDE) - 1
        if antisymmetric:
            parts = torch.cat([parts, parts * torch.tensor([[1.0], [1.0], [-1.0]], **WIDE)], 1)
        place = resolve(device)
        first, second, third = (
            (w * p).to(place, dtype) for w, p in zip(widths, parts, strict=True)
        )
        return cls(first, second, third, math.sqrt(m) if alpha is None else alpha)

    @classmethod
    def pytorch(
        cls,
        m: int,
        seed: int,
        device: str | torch.device = "auto",
        dtype: torch.dtype = torch.float64,
    ) -> Neurons:
        """As torch.nn.Linear draws them: a, b in (-1, 1), c in (-1, 1) / sqrt(m), and alpha = 1.

        >>> Neurons.pytorch(9, seed=0, device="cpu").c.abs().max().item() < 1 / 3
        True
        """
        whole("m", m, 1)
        return cls.drawn(m, seed, alpha=1.0, c=1 / math.sqrt(m), device=device, dtype=dtype)

    @classmethod
    def canonical(
        cls, r: ArrayLike, theta: ArrayLike, delta: float | ArrayLike, alpha: float | None = None
    ) -> Neurons:
        """Neurons from r (m,), theta (m,) and one invariant, or one for each; alpha = m unless given.

        Where r = 0 and delta > 0 the sign of c is lost, which is refused; where r = 0 and delta < 0 it is 0.

        >>> neurons = Neurons.canonical([1.0, -2.0], [0.0, 1.5], delta=0.0)
        >>> [round(value, 9) for value in neurons.r.tolist()]
        [1.0, -2.0]
        """
        r, theta = _floats("r", r), _floats("theta", theta)
        if r.ndim != 1 or r.shape != theta.shape:
            shapes = f"{tuple(r.shape)} and {tuple(theta.shape)}"
            raise InputError(f"r and theta must have one shape (m,), but {shapes} were given.")
        m = whole("the number of neurons", len(r), 1)
        alpha = float(m) if alpha is None else positive("alpha", alpha)
        inner = alpha / m * r
        delta = _invariants(delta, inner)
        if (lost := (inner == 0) & (delta > 0)).any():
            which = int(lost.nonzero()[0])
            raise InputError(
                f"r = 0 with delta = {delta[which].item()} > 0 at neuron {which}: c^2 = delta then, but "
                "its sign is lost. Give r another value, take delta <= 0, or give a, b, c themselves."
            )
        length, c = _split(inner, delta)
        return cls(length * theta.cos(), -length * theta.sin(), c, alpha)

    @property
    def m(self) -> int:
        """The number of neurons."""
        return len(self.a)

    @property
    def lengths(self) -> Tensor:
        """(m,): sqrt(a^2 + b^2)."""
        return torch.hypot(self.a, self.b)

    @property
    def r(self) -> Tensor:
        """(m,): the canonical radius, m / alpha times c sqrt(a^2 + b^2)."""
        return self.m / self.alpha * self.c * self.lengths

    @property
    def theta(self) -> Tensor:
        """(m,): the angle of (a, -b), in (-pi, pi]."""
        return torch.atan2(-self.b + 0.0, self.a)

    @property
    def u(self) -> Tensor:
        """(m,): |r| cos(theta)."""
        return self.m / self.alpha * self.c.abs() * self.a

    @property
    def v(self) -> Tensor:
        """(m,): |r| sin(theta)."""
        return -self.m / self.alpha * self.c.abs() * self.b

    @property
    def sign(self) -> Tensor:
        """(m,): the sign of c."""
        return self.c.sign()

    @property
    def knots(self) -> Tensor:
        """b / a, and infinite where a = 0: there is none."""
        return torch.where(self.a == 0, math.inf, self.b / self.a)

    @property
    def delta(self) -> Tensor:
        """c^2 - a^2 - b^2, which the flow keeps."""
        return self.c**2 - self.a**2 - self.b**2

    def predict(self, x: ArrayLike) -> Tensor:
        """(n,) -> (n,), in O((m + n) log n)."""
        samples, order = Samples.of(values_on_a_line("x", x, self.a))
        patterns = samples.patterns(self.a, self.b)
        outputs = samples.outputs(self.a, self.b, self.c, patterns) / self.alpha
        return torch.empty_like(outputs).scatter_(0, order, outputs)

    def rescaled(self, delta: float | ArrayLike) -> Neurons:
        """The same function by (ka, kb, c/k), k > 0, so that every neuron has this invariant.

        delta: one finite number, or one for each neuron, (m,). Refused is one that no k reaches.

        >>> Neurons.drawn(5, seed=0, device="cpu").rescaled(2.0).delta.allclose(torch.tensor(2.0).double())
        True
        """
        delta, lengths = _invariants(delta, self.a), self.lengths
        length, c = _split(self.c * lengths, delta)
        stuck = ((length > 0) != (lengths > 0)) | ((c != 0) != (self.c != 0))
        if stuck.any():
            which = int(stuck.nonzero()[0])
            a, b, c, d = (part[which].item() for part in (self.a, self.b, self.c, delta))
            raise InputError(
                f"neuron {which} has (a, b, c) = ({a}, {b}, {c}), which no factor k > 0 in (ka, kb, c/k) "
                f"brings to delta = {d}: where c = 0 it stays below 0, and where a = b = 0 above. "
                "Remove that neuron, or choose another delta."
            )
        k = torch.where(lengths > 0, length / lengths, 0.0)
        return replace(self, a=k * self.a, b=k * self.b, c=torch.copysign(c, self.c))


def _split(inner: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
    """(length, c) with length * c = inner and c^2 - length^2 = delta; the larger square first."""
    larger = ((delta.abs() + torch.hypot(delta, 2 * inner)) / 2).sqrt()
    smaller = torch.where(larger > 0, inner.abs() / larger, 0.0)
    above = delta > 0
    length, size = torch.where(above, smaller, larger), torch.where(above, larger, smaller)
    return length, torch.copysign(size, inner)


def require_neurons(neurons: Neurons, name: str = "neurons") -> Neurons:
    """Refuse what are no Neurons."""
    require_instance(name, neurons, Neurons, "Neurons.drawn(100, seed=0)")
    return neurons


def _floats(name: str, values: ArrayLike) -> Tensor:
    values = as_numbers(name, values, "(m,)")
    return values if values.is_floating_point() else values.double()


def _invariants(delta: float | ArrayLike, like: Tensor) -> Tensor:
    """Finite invariants, one for each neuron, from one number or one for each."""
    values = as_numbers("delta", delta, "() or (m,)").to(like)
    if values.ndim and values.shape != like.shape:
        shape_given = f"delta of shape {tuple(values.shape)} for {len(like)} neurons was given"
        raise InputError(f"{shape_given}: give one number, or one for each neuron.")
    if not values.isfinite().all():
        raise InputError(
            f"delta = {delta} was given, but neurons have finite invariants: infinite ones are limits, in "
            "which only c (-inf) or only a and b (inf) move. Give them to Flow."
        )
    return values.expand_as(like)
