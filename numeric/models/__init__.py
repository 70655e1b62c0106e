"""Any torch module or callable opened once, and the networks of the literature.

model = models.Model.of(network, layer="1")     # .layers, .up_to, .evaluate, .parameters, .functional_call
with model.on(x) as f: f(f.points)              # evaluation mode, restored afterwards; checked
model.require_separate_examples(x)              # refuses batch normalisation and dropout in training mode
models.hidden_layer(network)                    # phi(W x + b) with derivatives in closed form, or None
models.perceptron((20, 20)), models.ShallowNetwork(activation, weights, biases)
models.resnet18(activation=nn.ReLU(), classes=10), models.cifar_resnet(20)
models.Weights.read(path).into(network)         # from safetensors or torch.load, without executing pickles
"""

from numeric.models.hidden_layers import HiddenLayer, hidden_layer
from numeric.models.memory import Meter
from numeric.models.model import EvaluatedMap, Model, ModelLike, evaluation_mode
from numeric.models.perceptron import ParallelNetworks, perceptron
from numeric.models.resnet import (
    ResNet,
    cifar_resnet,
    resnet18,
    resnet20,
    resnet32,
    resnet34,
    resnet44,
    resnet50,
    resnet56,
    resnet101,
)
from numeric.models.shallow import ShallowNetwork
from numeric.models.weights import Weights

__all__ = [
    "EvaluatedMap", "HiddenLayer", "Meter", "Model", "ModelLike", "ParallelNetworks", "ResNet",
    "ShallowNetwork", "Weights", "cifar_resnet", "evaluation_mode", "hidden_layer", "perceptron",
    "resnet18", "resnet20", "resnet32", "resnet34", "resnet44", "resnet50", "resnet56", "resnet101",
]  # fmt: skip
