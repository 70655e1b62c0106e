"""The empirical tangent kernel of any torch model, and its gradients by parameters in factored form."""

from numeric.tangents.differentiation import gradients
from numeric.tangents.gradients import Gradients

__all__ = ["Gradients", "gradients"]
