"""Do the kernels of finite networks approach those of infinite width, and how fast?"""

from numeric.experiments.deep_width.bias import Bias, Coefficient
from numeric.experiments.deep_width.sweep import Approach, Approaches, KernelSweep

__all__ = ["Approach", "Approaches", "Bias", "Coefficient", "KernelSweep"]
