"""Geometry and predictions of a network between images: along segments, and in the plane of three.

x = images.segment(first, second)               # (n, c, h, w)
plane = images.Hull.of(first, second, third)    # convex hull; reach=1.5 for the affine one
fields = images.fields(network, x, layer="pool")
fields.log_volume, fields.prediction, fields.entropy, fields.log_singular
images.estimated_fields(network, x, layer="conv", directions=16)    # where a Jacobian is too dear
"""

from numeric.experiments.images.interpolation import CORNERS, Hull, segment
from numeric.experiments.images.network_fields import (
    EstimatedFields,
    Fields,
    estimated_fields,
    fields,
)

__all__ = [
    "CORNERS", "EstimatedFields", "Fields", "Hull", "estimated_fields", "fields", "segment",
]  # fmt: skip
