"""Flows from gradient descent to straight lines in output space, of any torch model.

    flow = flows.integrate(model, x, y, alpha=1.0)  # .outputs(t), .parameters(t), .deviation(t), ...
    flows.follow(model, x, path, nodes=10)          # parameters that realise a path of outputs
    flows.slide(relu_model, x, y)                   # along the kinks of a ReLU network: straight lines too
    flows.euler(relu_model, x, y, steps=1000)       # what short steps do there instead
    flows.descend(model, x, y, flows.GaussNewton()) # neighbours, with losses against CPU time
    flows.collapse(flow, classes, times)            # class means and deviations within classes

The alpha = 1 flow is worth its cost where the path itself is wanted: outputs and cost known in advance at all
times. As a way to a fit, Gauss-Newton with line search takes the same direction in few long steps and is
several times cheaper, as notebook 13 counts; first-order steps are cheaper still where a rough fit will do.

The cost is |x - y|^2 / (2 N) unless another function of outputs is given, and t = 1 - exp(-s / N).
"""

from numeric.flows.collapse import Collapse, collapse
from numeric.flows.costs import half_mean_squared_error
from numeric.flows.descents import (
    Descent,
    GaussNewton,
    GradientDescent,
    LevenbergMarquardt,
    NaturalGradient,
    descend,
    gaussian_fisher,
    softmax_fisher,
)
from numeric.flows.euler_steps import EulerFlow, euler
from numeric.flows.flow import Flow, integrate
from numeric.flows.prescribed import FollowedPath, follow
from numeric.flows.rank_events import RankEvent
from numeric.flows.sliding import KinkEvent, SlidingFlow, slide

__all__ = [
    "Collapse", "Descent", "EulerFlow", "Flow", "FollowedPath", "GaussNewton", "GradientDescent",
    "KinkEvent", "LevenbergMarquardt", "NaturalGradient", "RankEvent", "SlidingFlow", "collapse", "descend",
    "euler", "follow", "gaussian_fisher", "half_mean_squared_error", "integrate", "slide", "softmax_fisher",
]  # fmt: skip
