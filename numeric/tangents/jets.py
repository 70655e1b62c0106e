r"""The metric of an empirical tangent kernel: that of the map from points to gradients by the parameters.

With $G(x) = \nabla_\theta f(x)$ the kernel is $\frac1k\sum_a G_a(x)\cdot G_a(y)$, and so its metric
$\frac1k\sum_a \partial_iG_a\cdot\partial_jG_a$: forward derivatives of backward ones, one point at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor
from torch.func import jacfwd, jacrev

from numeric.inputs import ArrayLike, InputError, as_numbers
from numeric.kernels import Jet
from numeric.models import Model, ModelLike
from numeric.models.forward_mode import prepare

__all__ = ["jet_of_gradients"]


def jet_of_gradients(
    model: ModelLike,
    x: ArrayLike,
    parameters: Mapping[str, Tensor] | None = None,
    modules: str | Iterable[str] | None = None,
) -> Jet:
    """The jet of an EmpiricalNTK at points x (n, ...) with d coordinates: (n,), (n, d), (n, d, d).

    `parameters` and `modules` are those of `ntk`. One point holds d times the gradients of all outputs. Where
    slopes jump, as those of ReLU do, the jet is that of the piece that a point lies in. Refused are what
    `Model.on` refuses, and operations without forward derivatives.

    >>> square = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False).double())
    >>> jet_of_gradients(square, [[3.0]]).metric.tolist()  # k(x, y) = x y
    [[[1.0]]]
    """
    model, x, values = Model.of(model), as_numbers("x", x), dict(parameters or {})
    chosen = model.parameters(modules=modules)
    leaves = {name: values.pop(name, value).detach() for name, value in chosen.items()}

    def gradients(point: Tensor) -> Tensor:
        """The gradients of all outputs at a point (d,), in a row."""
        batch = point.reshape(1, *x.shape[1:])
        rows = jacrev(lambda at: model.functional_call({**values, **at}, batch.clone()))(leaves)
        return torch.cat([part.flatten() for part in rows.values()])

    def twice(point: Tensor) -> tuple[Tensor, Tensor]:
        row = gradients(point)
        return row, row

    prepare()
    parts = []
    with model.on(x) as f:
        for point in f.points:
            try:
                slopes, row = jacfwd(twice, has_aux=True)(point)
            except NotImplementedError as error:
                raise InputError(
                    f"The model has an operation without forward derivatives ({error}), which a metric "
                    "needs: replace it by others of torch."
                ) from None
            values_at = row @ row, slopes.T @ row, slopes.T @ slopes
            parts.append(Jet(*(value[None] / f.count for value in values_at)))
    return Jet.cat(parts)
