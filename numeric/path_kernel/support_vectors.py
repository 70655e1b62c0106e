"""Support vector machines with the exact path kernel: the training points of a network weighted anew."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, positive, require_instance
from numeric.path_kernel.exact import ExactPathKernel
from numeric.path_kernel.two_copies import Copy

__all__ = ["SupportVectorMachine", "support_vectors"]


@dataclass(frozen=True, eq=False)
class SupportVectorMachine:
    """f_c(x) = b_c + sum over i of a_{ic} k(x, x_i), one machine for each class against the others."""

    path: ExactPathKernel
    coefficients: Tensor  # (M, classes), 0 for all but support vectors
    bias: Tensor  # (classes,)

    def decide(self, x: ArrayLike) -> Tensor:
        """The decision functions, (n, ...) -> (n, classes): above 0 for the class, below for the others."""
        return mean_kernel(self.path, x, self.path.run.x) @ self.coefficients + self.bias

    def predict(self, x: ArrayLike) -> Tensor:
        """The class of the largest decision function, (n, ...) -> (n,)."""
        return self.decide(x).argmax(1)


def support_vectors(path: ExactPathKernel, C: float = 1.0) -> SupportVectorMachine:
    r"""Weigh the training points of a classifier anew, by support vector machines with the path kernel.

    The kernel $k = \frac1k \mathrm{tr}\,K$ is the mean over outputs, with points that are predicted in copy
    0 and training points in copy 1. It is divided by its mean on the diagonal, so that C means the same for
    every run. (Bell et al. 2023, section 4.1.)

    path: an ExactPathKernel of a run of plain gradient descent whose targets are class numbers (M,). C: as
        scikit-learn has it, above 0: the larger, the fewer points on the wrong side.

    Returned is a SupportVectorMachine. Refused are other targets than class numbers, and a single class.

    >>> from functools import partial
    >>> from numeric.path_kernel import record
    >>> x = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> net = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).double()
    >>> y, sgd = (x[:, 0] > 0).long(), partial(torch.optim.SGD, lr=0.5)
    >>> run = record(net, torch.nn.CrossEntropyLoss(), sgd, (x, y), steps=9, device="cpu", progress=False)
    >>> machine = support_vectors(ExactPathKernel(run, progress=False), C=10.0)
    >>> machine.predict([[-0.7], [0.7]]).tolist()
    [0, 1]
    """
    from sklearn.svm import SVC  # which takes a second to import

    require_instance("path", path, ExactPathKernel, "ExactPathKernel(run)")
    positive("C", C)
    y = path.run.y
    if y.ndim != 1 or y.is_floating_point():
        raise InputError(
            f"The record's targets are {y.dtype} of shape {tuple(y.shape)}, but class numbers (M,) are "
            "needed."
        )
    if len(classes := y.unique()) < 2:
        raise InputError(
            f"All training points are of class {int(classes[0])}: a machine needs two classes at least."
        )
    gram = mean_kernel(path, Copy(path.run.x, 1))
    unit = gram.diagonal().mean()
    scaled = ((gram + gram.T) / 2 / unit).cpu().numpy()
    count = int(classes.max()) + 1
    coefficients, bias = gram.new_zeros(len(y), count), gram.new_full((count,), -1.0)
    for c in classes.tolist():
        machine = SVC(C=C, kernel="precomputed").fit(scaled, (y == c).cpu().numpy())
        rows = torch.from_numpy(machine.support_).to(y.device).long()
        coefficients[rows, c] = torch.from_numpy(machine.dual_coef_[0]).to(gram) / unit
        bias[c] = float(machine.intercept_[0])
    return SupportVectorMachine(path, coefficients, bias)


def mean_kernel(
    path: ExactPathKernel, x: ArrayLike | Copy, y: ArrayLike | Copy | None = None
) -> Tensor:
    """The mean over outputs of the diagonals of the blocks of `path.gram(x, y)`: (n, m)."""
    return path.gram(x, y).diagonal(dim1=2, dim2=3).mean(2)
