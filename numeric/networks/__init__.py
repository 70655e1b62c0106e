"""Networks of the literature, written in plain torch with a seed of their own."""

from numeric.networks.resnet import ResNet, resnet50, resnet101

__all__ = ["ResNet", "resnet50", "resnet101"]
