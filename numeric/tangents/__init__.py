"""The empirical tangent kernel of any torch model, and its gradients by parameters in factored form.

tangents.ntk(model, x, y)                       # (n, m, k, k); trace=True: mean over outputs, (n, m)
tangents.EmpiricalNTK(model)                    # the latter as a Kernel
g = tangents.gradients(model, x, signals)       # g.inner(h), g.along(directions), g.dense(), g.sum()
with tangents.differentiation(model, x) as run: run.at(parameters).gradients(run.points)    # many times
"""

from numeric.tangents.differentiated import Differentiation, differentiation, gradients
from numeric.tangents.factored import Gradients
from numeric.tangents.kernel import EmpiricalNTK, WithoutRule, ntk

__all__ = [
    "Differentiation", "EmpiricalNTK", "Gradients", "WithoutRule", "differentiation", "gradients", "ntk",
]  # fmt: skip
