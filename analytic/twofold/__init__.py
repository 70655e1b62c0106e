"""Arithmetic with twice the digits of floats, for what cancels however it is written."""

from analytic.twofold.compiled import compile_twofold
from analytic.twofold.number import Twofold

__all__ = ["Twofold", "compile_twofold"]
