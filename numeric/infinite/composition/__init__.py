"""Networks of infinite width composed of layers, each of which knows its kernel and its finite twin."""

from numeric.infinite.composition.attention import SelfAttention
from numeric.infinite.composition.convolution import Convolution
from numeric.infinite.composition.dense import Dense, Flatten
from numeric.infinite.composition.dropout import Dropout
from numeric.infinite.composition.layer_norm import LayerNorm
from numeric.infinite.composition.lift import GroupConvolution, Lift, Window
from numeric.infinite.composition.network import Network
from numeric.infinite.composition.padding import CIRCULAR, SAME, VALID
from numeric.infinite.composition.pooling import AveragePool, GlobalPool, GroupPool
from numeric.infinite.composition.residual import Residual
from numeric.infinite.composition.spherical import S2Convolution, SO3Convolution

__all__ = [
    "CIRCULAR", "SAME", "VALID", "AveragePool", "Convolution", "Dense", "Dropout", "Flatten", "GlobalPool",
    "GroupConvolution", "GroupPool", "LayerNorm", "Lift", "Network", "Residual", "S2Convolution",
    "SO3Convolution", "SelfAttention", "Window",
]  # fmt: skip
