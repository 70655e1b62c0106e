"""Labelled images from digits, IDX files, CIFAR-10, folders and arrays, each with its normalisation.

train, test = data.digits()                     # bundled
train, test = data.load(folder)                 # whatever is there: idx, cifar10, image_folder
data.histology(folder)                          # tiles of tissue, NCT-CRC-HE-100K
data.ImageData.of(images, labels)               # from arrays
train.inputs(), train.labels, train.classes     # normalised (n, c, h, w), (n,), names
train.normalisation.undo(x)                     # back to pixels in [0, 1]
data.MNIST.fetch(folder)                        # from its authors, by pooch
"""

from numeric.data.cifar import cifar10
from numeric.data.digits import digits
from numeric.data.directory import load
from numeric.data.downloads import CIFAR10, FASHION_MNIST, MNIST, Download
from numeric.data.folders import image_folder
from numeric.data.histology import histology
from numeric.data.idx import idx
from numeric.data.images import ImageData, Normalisation, Split

__all__ = [
    "CIFAR10", "FASHION_MNIST", "MNIST", "Download", "ImageData", "Normalisation", "Split", "cifar10",
    "digits", "histology", "idx", "image_folder", "load",
]  # fmt: skip
