"""Any torch module or callable opened once, and the networks of the literature.

model = models.Model.of(network, layer="1")     # .layers, .up_to, .evaluate, .parameters, .functional_call
with model.on(x) as f: f(f.points)              # evaluation mode, restored afterwards; checked
model.require_separate_examples(x)              # refuses batch normalisation and dropout in training mode
models.hidden_layer(network)                    # phi(W x + b) with derivatives in closed form, or None
models.perceptron((20, 20)), models.ShallowNetwork(activation, weights, biases), models.resnet50()
"""

from numeric.models.hidden_layers import HiddenLayer, hidden_layer
from numeric.models.memory import Meter
from numeric.models.model import EvaluatedMap, Model, ModelLike, evaluation_mode
from numeric.models.perceptron import ParallelNetworks, perceptron
from numeric.models.resnet import ResNet, resnet50, resnet101
from numeric.models.shallow import ShallowNetwork

__all__ = [
    "EvaluatedMap", "HiddenLayer", "Meter", "Model", "ModelLike", "ParallelNetworks", "ResNet",
    "ShallowNetwork", "evaluation_mode", "hidden_layer", "perceptron", "resnet50", "resnet101",
]  # fmt: skip
