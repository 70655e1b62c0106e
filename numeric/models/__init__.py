"""Models opened once, and the networks of the literature: layers by name, repaired operations, memory."""

from numeric.models.resnet import ResNet, resnet50, resnet101

__all__ = ["ResNet", "resnet50", "resnet101"]
