"""Arithmetic with twice the digits of floats, for what cancels however it is written."""

from analytic.expressions.twofold.functions import compile_twofold
from analytic.expressions.twofold.number import Twofold

__all__ = ["Twofold", "compile_twofold"]
