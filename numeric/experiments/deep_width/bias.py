"""A bias measured at several widths, and weighted least-squares fits in powers of the width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from numeric.estimate import Slope
from numeric.inputs import InputError, as_numbers, number, whole_numbers

__all__ = ["Bias", "Coefficient"]

STEP = 0.01
EXPONENTS = torch.arange(
    -6, 3, STEP, dtype=torch.float64
)  # grid on which the best exponent is searched


@dataclass(frozen=True)
class Coefficient:
    """A fitted number and its standard error."""

    value: float
    stderr: float

    def sigmas_from(self, exact: float) -> float:
        """How many standard errors it lies from a value."""
        return abs(self.value - exact) / self.stderr


@dataclass(frozen=True)
class Bias:
    """Mean minus infinite-width value of one number, and its standard error, at every width.

    >>> bias = Bias((10, 20, 40), (0.1, 0.05, 0.025), (0.01, 0.01, 0.01))  # 1 / n
    >>> round(bias.slope().value, 6)
    -1.0
    """

    widths: tuple[int, ...]
    values: tuple[float, ...]
    stderrs: tuple[float, ...]

    def __post_init__(self) -> None:
        whole_numbers("widths", self.widths)
        values, stderrs = (
            as_numbers(name, getattr(self, name), "(widths,)") for name in ("values", "stderrs")
        )
        if not len(self.widths) == len(self.values) == len(self.stderrs) > 0:
            raise InputError(
                f"Every width needs a value and a standard error, but {len(self.widths)} widths, "
                f"{len(self.values)} values and {len(self.stderrs)} errors were given."
            )
        if not values.isfinite().all() or not stderrs.min() > 0:
            raise InputError(
                "A bias needs finite values with standard errors above 0 to weigh them by, but "
                f"{self.values} with {self.stderrs} were given: take an entry that varies."
            )

    def expansion(self, powers: Sequence[int] = (0, 1, 2)) -> tuple[Coefficient, ...]:
        r"""The coefficient of $n^{-k}$ for each k in powers, by weighted least squares.

        That of k = 0 is what remains at infinite width: none, where the infinite kernel is right.
        """
        powers = whole_numbers("powers", powers, 0)
        self._require_widths(len(powers))
        columns = torch.stack([self._n**-k / self._errors for k in powers], 1)
        solve = torch.linalg.pinv(columns)
        fitted, errors = solve @ self._weighed, solve.norm(dim=1)  # weighed values have error 1
        return tuple(map(Coefficient, fitted.tolist(), errors.tolist()))

    def slope(self) -> Slope:
        r"""The exponent p of $c\,n^p$ by weighted least squares; unresolved, its error is infinite."""
        self._require_widths(3)
        best = int(self._misfits(EXPONENTS).argmin())
        if best in (0, len(EXPONENTS) - 1):
            return Slope(EXPONENTS[best].item(), math.inf)
        fine = EXPONENTS[best] + torch.linspace(-STEP, STEP, 2001, dtype=torch.float64)
        p = fine[self._misfits(fine).argmin()]
        curve = self._curves(p[None])[:, 0]
        c = (curve @ self._weighed) / (curve @ curve)
        columns = torch.stack([curve, c * self._n.log() * curve], 1)  # derivatives by c and p
        return Slope(p.item(), torch.linalg.pinv(columns)[1].norm().item())

    def misfit(self, p: float) -> float:
        r"""$\chi^2$ of the best $c\,n^p$, with one degree of freedom less than there are widths."""
        return self._misfits(torch.tensor([number("p", p)], dtype=torch.float64)).item()

    def _misfits(self, p: Tensor) -> Tensor:
        curves = self._curves(p)
        c = (self._weighed @ curves) / (curves**2).sum(0)
        return ((self._weighed[:, None] - c * curves) ** 2).sum(0)

    def _curves(self, p: Tensor) -> Tensor:
        """(widths, exponents): n^p over the standard error, relative to the mean width against overflow."""
        return (self._n / self._n.log().mean().exp())[:, None] ** p / self._errors[:, None]

    @cached_property
    def _n(self) -> Tensor:
        return torch.tensor(self.widths, dtype=torch.float64)

    @cached_property
    def _errors(self) -> Tensor:
        return torch.tensor(self.stderrs, dtype=torch.float64)

    @cached_property
    def _weighed(self) -> Tensor:
        return torch.tensor(self.values, dtype=torch.float64) / self._errors

    def _require_widths(self, count: int) -> None:
        if len(self.widths) < count:
            raise InputError(
                f"This fit needs at least {count} widths, but {self.widths} were given: add some."
            )
