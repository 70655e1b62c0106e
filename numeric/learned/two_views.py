r"""Self-supervised training on two views of each image: Barlow Twins and SimCLR, without labels.

Barlow Twins (Zbontar et al. 2021) wants the correlations of embeddings between both views to be the
identity; SimCLR (Chen et al. 2020) wants each view to be told by its partner among all others of the
batch, on the unit sphere. Labels enter afterwards, by a linear probe on the features before the projector.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from numeric.inputs import InputError, generator_for, positive, require_instance, whole
from numeric.learned.augmentations import View
from numeric.runs import Batch
from numeric.runs.names import qualified_name

__all__ = [
    "OnSphere", "TwoViews", "barlow_twins", "linear_probe", "projector", "simclr", "with_readout",
]  # fmt: skip

FEATURES, PROJECTOR, READOUT = "features", "projector", "readout"  # names of the parts of a model


def barlow_twins(one: Tensor, other: Tensor, off_diagonal: float = 5e-3) -> Tensor:
    r"""The loss of Barlow Twins.

    $\sum_k (1 - C_{kk})^2 + \lambda\sum_{k\ne l} C_{kl}^2$, where $C_{kl}$ is the correlation over the batch
    of entry k of one embedding with entry l of the other.

    one, other: embeddings of two views, (n, p), rows of the same images. off_diagonal: $\lambda$.
    Returned is the loss, (). Refused are embeddings of other shapes, and batches of one.

    >>> z = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> barlow_twins(z, z).item(), barlow_twins(z, -z).item()
    (0.0, 8.0)
    """
    weight = positive("off_diagonal", off_diagonal, zero=True)
    _require_pair(one, other)
    first, second = (
        (z - z.mean(0)) / z.std(0, correction=0).clamp(min=torch.finfo(z.dtype).tiny)
        for z in (one, other)
    )
    square = (first.T @ second / len(one) - torch.eye(one.shape[1]).to(one)).square()
    return (1 - weight) * square.diagonal().sum() + weight * square.sum()


def simclr(one: Tensor, other: Tensor, temperature: float = 0.5) -> Tensor:
    r"""The loss of SimCLR, the normalised temperature-scaled cross entropy.

    With all 2n embeddings divided by their lengths, the mean of
    $-\log\frac{e^{z_i\cdot z_j/\tau}}{\sum_{k\ne i} e^{z_i\cdot z_k/\tau}}$ over both views i of each image,
    j being the other view.

    one, other: embeddings of two views, (n, p), rows of the same images. temperature: $\tau$.
    Returned is the loss, (). Refused are embeddings of other shapes, and batches of one.

    >>> z = torch.ones(3, 2)  # nothing can be told apart: log(2n - 1)
    >>> math.isclose(simclr(z, z).item(), math.log(5), rel_tol=1e-6)
    True
    """
    scale = positive("temperature", temperature)
    _require_pair(one, other)
    z = F.normalize(torch.cat([one, other]), dim=1)
    logits = (z @ z.T / scale).fill_diagonal_(-math.inf)
    return F.cross_entropy(logits, torch.arange(len(z), device=z.device).roll(len(one)))


@dataclass(frozen=True)
class TwoViews:
    """A step of `numeric.runs.train`: two random views of a batch, a loss of both embeddings, one update.

    loss: such as barlow_twins. first, second: views of images from 0 to 1, which draw from torch's global
    generator, so that an interrupted run resumes to the same ones. prepare: what is done to views before
    they enter the model, as the normalisation of a data set. The model maps images to embeddings. State
    the step in the run's `key`, as in key=repr(step), which names functions as every process does: the
    code of steps is not compared.

    >>> from functools import partial
    >>> from numeric.learned.augmentations import RandomCrop
    >>> from numeric.runs import train
    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    >>> step = TwoViews(barlow_twins, RandomCrop(1), RandomCrop(1))
    >>> images, sgd = torch.rand(20, 1, 4, 4), partial(torch.optim.SGD, lr=0.01)
    >>> train(net, None, (images, None), sgd, steps=2, step=step, device="cpu", progress=False).steps
    (0, 2)
    """

    loss: Callable[[Tensor, Tensor], Tensor]
    first: View
    second: View
    prepare: Callable[[Tensor], Tensor] | None = None

    def __post_init__(self) -> None:
        for name in ("loss", "first", "second"):
            if not callable(getattr(self, name)):
                raise InputError(
                    f"{name} = {getattr(self, name)!r} cannot be called: give a function."
                )

    def __repr__(self) -> str:
        names = map(qualified_name, (self.loss, self.first, self.second, self.prepare))
        return "TwoViews(loss={}, first={}, second={}, prepare={})".format(*names)

    def __call__(self, model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch) -> Tensor:
        # Both views in one pass: batch normalisation sees the same statistics for either.
        views = torch.cat([self.first(batch.x), self.second(batch.x)])
        one, other = model(views if self.prepare is None else self.prepare(views)).chunk(2)
        loss = self.loss(one, other)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()


def projector(
    features: nn.Module,
    p: int,
    widths: tuple[int, ...],
    seed: int = 0,
    activation: nn.Module | None = None,
) -> nn.Sequential:
    """The features, then linear layers of these widths with an activation between them.

    features: a module (n, ...) -> (n, p). widths: such as (256,) for Barlow Twins in the paper. The
    activation is nn.GELU() unless given. Weights are normal with variance 1/fan-in from the seed, biases 0.
    Returned is a Sequential of `features` and `projector`. Refused are widths that are no whole numbers
    above 0.

    >>> projector(nn.Flatten(), 16, (8, 4))(torch.zeros(2, 1, 4, 4)).shape
    torch.Size([2, 4])
    """
    require_instance("features", features, nn.Module, "resnet20()")
    if not isinstance(widths, tuple | list) or not widths:
        raise InputError(f"widths = {widths!r} was given, but a tuple such as (256,) is needed.")
    sizes = [whole("p", p), *(whole("width", width) for width in widths)]
    generator = generator_for("projector", whole("seed", seed, 0))
    like = next(features.parameters(), torch.zeros((), device="cpu"))
    parts: list[nn.Module] = []
    for fan, width in pairwise(sizes):
        layer = nn.Linear(fan, width, device="meta", dtype=like.dtype).to_empty(device="cpu")
        nn.init.normal_(layer.weight, std=fan**-0.5, generator=generator)
        nn.init.zeros_(layer.bias)
        parts += [layer, nn.GELU() if activation is None else activation]
    head = nn.Sequential(*parts[:-1]).to(like.device)
    return nn.Sequential(OrderedDict([(FEATURES, features), (PROJECTOR, head)]))


class OnSphere(nn.Module):
    """Features divided by their length, whose metric is pulled back from the unit sphere.

    Where the Jacobian J of the p features f has full rank p at most the number of inputs, the metric has
    rank p - 1 and, with $z = f/|f|$, log volume
    $\\log\\sqrt{\\det JJ^T} - (p - 1)\\log|f| + \\frac12\\log z^T(JJ^T)^{-1}z$.

    >>> OnSphere(nn.Flatten())(torch.tensor([[3.0, 4.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """

    def __init__(self, features: nn.Module) -> None:
        super().__init__()
        self.features = require_instance("features", features, nn.Module, "nn.Flatten()")

    def forward(self, x: Tensor) -> Tensor:
        f = self.features(x)
        return f / f.norm(dim=1, keepdim=True)


def linear_probe(features: Tensor, labels: Tensor, penalty: float = 1.0) -> nn.Linear:
    r"""Multiclass logistic regression on features, as a linear layer that gives logits.

    It minimises the sum of the cross entropies plus `penalty`/2 times the sum of squared weights of the
    standardised features, without the intercept: the paper's penalty is 1, and it leaves open whether
    features are standardised, without which the penalty would depend on their scale.

    features: (n, p). labels: whole numbers (n,) from 0 on. Returned is a layer p -> classes in the features'
    dtype and on their device. Refused are features that are not finite, and labels other than 0 to c - 1,
    each of them once at least.

    >>> probe = linear_probe(torch.tensor([[0.0], [1.0], [4.0], [5.0]]), torch.tensor([0, 0, 1, 1]))
    >>> probe(torch.tensor([[1.5], [3.0]])).argmax(1).tolist()
    [0, 1]
    """
    weight = positive("penalty", penalty)
    if not isinstance(features, Tensor) or features.ndim != 2 or not features.isfinite().all():
        raise InputError("features must be a tensor of finite numbers of shape (n, p).")
    if not isinstance(labels, Tensor) or labels.shape != features.shape[:1]:
        raise InputError(
            f"labels must be a tensor of shape ({len(features)},), one a row of features."
        )
    if labels.unique().tolist() != list(range(int(labels.max()) + 1)) or labels.max() < 1:
        raise InputError(
            f"labels must be 0 to c - 1, each at least once, and of two classes at least, not "
            f"{labels.unique().tolist()[:9]}: number the classes anew."
        )
    x = features.detach().double().cpu()
    mean, std = x.mean(0), x.std(0, correction=0)
    std = torch.where(std > 0, std, 1)
    model = LogisticRegression(C=1 / weight, max_iter=10_000)
    model.fit(((x - mean) / std).numpy(), labels.cpu().numpy())
    slopes, shift = (torch.from_numpy(part) for part in (model.coef_, model.intercept_))
    if len(slopes) == 1:  # of two classes only their difference is given
        slopes, shift = torch.cat([-slopes, slopes]) / 2, torch.cat([-shift, shift]) / 2
    layer = nn.Linear(x.shape[1], len(slopes), device="meta").to_empty(device="cpu").double()
    layer.load_state_dict({"weight": slopes / std, "bias": shift - (slopes / std) @ mean})
    return layer.to(features.device, features.dtype)


def with_readout(features: nn.Module, readout: nn.Module) -> nn.Sequential:
    """A classifier of two parts, whose layer `features` is the representation.

    features, readout: modules (n, ...) -> (n, p) and (n, p) -> (n, classes); what is no module is refused.

    >>> list(dict(with_readout(nn.Flatten(), nn.Linear(4, 2)).named_children()))
    ['features', 'readout']
    """
    require_instance("features", features, nn.Module, "resnet20()")
    require_instance("readout", readout, nn.Module, "nn.Linear(64, 10)")
    return nn.Sequential(OrderedDict([(FEATURES, features), (READOUT, readout)]))


def _require_pair(one: Tensor, other: Tensor) -> None:
    shapes = [tuple(z.shape) if isinstance(z, Tensor) else repr(z) for z in (one, other)]
    if not isinstance(one, Tensor) or one.ndim != 2 or shapes[0] != shapes[1]:
        raise InputError(f"Two embeddings (n, p) of the same images are needed, not {shapes}.")
    if len(one) < 2:
        raise InputError(
            "A batch of one image was given, whose views can be compared with nothing: choose a batch "
            "size that leaves no single image at the end of an epoch."
        )
