"""Networks that are equivariant under a group, infinitely wide: exact kernels, and data augmentation."""

from analytic.equivariant.actions import Action, natural, regular, rototranslations, trivial
from analytic.equivariant.augmentation import augmented, group_average, mean_prediction
from analytic.equivariant.groups import (
    Group,
    cyclic,
    dihedral,
    product,
    semidirect,
    symmetric,
)
from analytic.equivariant.network import GroupNetwork, PairKernels, dense, perceptron
from analytic.equivariant.sphere import zonal_kernels

__all__ = [
    "Action",
    "Group",
    "GroupNetwork",
    "PairKernels",
    "augmented",
    "cyclic",
    "dense",
    "dihedral",
    "group_average",
    "mean_prediction",
    "natural",
    "perceptron",
    "product",
    "regular",
    "rototranslations",
    "semidirect",
    "symmetric",
    "trivial",
    "zonal_kernels",
]  # fmt: skip
