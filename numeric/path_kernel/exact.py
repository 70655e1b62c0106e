r"""The exact path kernel: a trained network's outputs as a sum of what each training point did in each step.

$$f_{w_N}(x) = f_{w_0}(x) + \sum_i A_i(x) + D(x), \qquad
  A_i(x) = \sum_r u_r(x)\,\omega_{i,r} J_{w_r}(x_i)^T \ell'_{i,r}, \qquad u_r = \sum_{s \ge r} \psi_s
  B_{s,r}$$

where $\psi_s(x) = \int_0^1 J_{w_s + t(w_{s+1} - w_s)}(x)\,dt$, $\omega\,\ell'$ is the derivative of the
step's loss by the outputs of point i, $B$ says how gradients move the weights, and D is what weight decay
moved. (Bell et al. 2023, (7) and Algorithm 1, corrected; other optimisers by their linear maps.)

Sign and scale: `attributions(x)[a, k, i]` is in the units of the output k at the point a, and positive if
the point i raised it. Summed over i, with `start(x)` and `decay(x)`, attributions are the network's
outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, as_numbers, shown, whole
from numeric.models import Model, evaluation_mode
from numeric.models.memory import GIGABYTE
from numeric.models.model import plain_attention
from numeric.models.output_checks import run_or_explain
from numeric.path_kernel.computation import Choices, Computation, State
from numeric.path_kernel.influence import influence
from numeric.path_kernel.quadrature import GaussLegendre, Quadrature
from numeric.path_kernel.record import Record
from numeric.path_kernel.row_parameters import rows_have_rules
from numeric.path_kernel.two_copies import Copy, KernelMachine, TwoCopyKernel, gram_of_step
from numeric.progress import progress_bar
from numeric.runs.store import checkpoint, fingerprint

__all__ = ["ExactPathKernel", "Top"]

ROUNDINGS = 64  # of a derivative of the loss that is the same in all steps


@dataclass(frozen=True, eq=False)
class ExactPathKernel:
    """What every training point, and weight decay, added to the outputs of a recorded model.

    run: a `Record`, as `path_kernel.record` returns it. quadrature: `GaussLegendre()`, exact to rounding;
    `LeftRiemann(T)` for Algorithm 1 as the paper prints it, and
        `LeftRiemann(1)` for the discrete path kernel.
    memory: a budget in bytes, beside the record, the points and the results.
    progress: whether to show a progress bar.

    `during(steps)` and `within(modules)` count only the displacements of some steps, or of some modules'
    parameters; `grouped(labels)` and `by_class()` add up the attributions of groups of points. Each
    returns an ExactPathKernel, and they compose. Parts add up to the whole. What has no such part says so:
    `influence` and `defects` refuse a choice of modules.

    >>> from functools import partial
    >>> from numeric import path_kernel
    >>> x = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> net = torch.nn.Sequential(torch.nn.Linear(1, 5), torch.nn.ReLU(), torch.nn.Linear(5, 1)).double()
    >>> sgd = partial(torch.optim.SGD, lr=0.5)
    >>> mse, data = torch.nn.MSELoss(), (x, x**2)
    >>> run = path_kernel.record(net, mse, sgd, data, steps=5, device="cpu", progress=False)
    >>> kernel = ExactPathKernel(run)
    >>> kernel.attributions(x[:3]).shape
    torch.Size([3, 1, 20])
    >>> bool(kernel.residual(x[:3]).abs().max() < 1e-13)
    True
    """

    run: Record
    quadrature: Quadrature = field(default_factory=GaussLegendre)
    memory: int = GIGABYTE
    progress: bool = True
    steps: tuple[int, ...] | None = None  # those that count; None: all
    modules: tuple[str, ...] | None = None  # those that count; None: all
    groups: Tensor | None = field(
        default=None, repr=False
    )  # (M,), the group of each training point

    def __post_init__(self) -> None:
        if not isinstance(self.run, Record):
            raise InputError(
                f"run = {shown(self.run)} was given, but a Record as path_kernel.record returns it is needed."
            )
        whole("memory", self.memory)
        if not callable(getattr(self.quadrature, "nodes", None)):
            raise InputError(
                f"quadrature = {self.quadrature!r} was given, but an object such as GaussLegendre() or "
                "LeftRiemann(100) is needed."
            )

    # Choices of what counts.

    def during(self, steps: int | Iterable[int]) -> ExactPathKernel:
        """Count only the gradients and the weight decay of some steps, numbered from 0 to N - 1."""
        chosen = self.run.require_steps(steps)
        if not chosen:
            raise InputError("steps = () was given, but one at least is needed.")
        remaining = chosen if self.steps is None else tuple(s for s in chosen if s in self.steps)
        return replace(self, steps=remaining)

    def within(self, modules: str | Iterable[str]) -> ExactPathKernel:
        """Count only what moved the parameters of some modules, by name; of nested choices, the last."""
        names = (modules,) if isinstance(modules, str) else tuple(modules)
        moved = self.run.parameters(0)
        chosen = Model.of(self.run.model).parameters(trainable=False, modules=names)
        if not set(chosen) & set(moved):
            raise InputError(
                f"Training moved no parameter in {', '.join(names)}: choose other modules."
            )
        return replace(self, modules=names)

    def grouped(self, labels: ArrayLike) -> ExactPathKernel:
        """Add up attributions over groups of training points: labels (M,) are whole numbers 0 ... G - 1."""
        labels = as_numbers("labels", labels, "(M,)")
        m = len(self.run.x)
        if labels.shape != (m,):
            raise InputError(
                f"labels of shape {tuple(labels.shape)} were given, but the group of each of {m} training "
                "points is needed."
            )
        if (labels != labels.round()).any() or labels.min() < 0:
            raise InputError(
                "labels must be whole numbers from 0, the group of each training point."
            )
        return replace(self, groups=labels.to(self.run.x.device, torch.int64))

    def by_class(self) -> ExactPathKernel:
        """Groups by class: the targets are class numbers (M,), or rows (M, K) of their probabilities."""
        y = self.run.y
        if y.ndim == 2 and y.shape[1] > 1:
            y = y.argmax(1)
        if y.ndim != 1 or y.is_floating_point():
            raise InputError(
                f"The record's targets are {y.dtype} of shape {tuple(self.run.y.shape)}, not class numbers: "
                "give groups of your own by grouped(labels)."
            )
        return self.grouped(y)

    # What a user asks.

    def start(self, x: ArrayLike) -> Tensor:
        """The outputs before training, f_{w_0}(x): (n, ...) -> (n, k)."""
        with self._open(x) as work:
            return work.outputs_at(0)

    def network(self, x: ArrayLike) -> Tensor:
        """The outputs after training, f_{w_N}(x): (n, ...) -> (n, k)."""
        with self._open(x) as work:
            return work.outputs_at(self.run.steps)

    def attributions(self, x: ArrayLike, store: str | Path | None = None) -> Tensor:
        """What each training point added to each output: (n, ...) -> (n, k, M), or (n, k, G) with groups.

        store: a file for what has been computed, with which the same call goes on after an interrupt.
        """
        with self._open(x) as work:
            return self._finished("attributions", work, store, work.attribute)["points"]

    def decay(self, x: ArrayLike, store: str | Path | None = None) -> Tensor:
        """What weight decay added to each output: (n, ...) -> (n, k)."""
        with self._open(x) as work:
            if not work.decays:
                return work.new_zeros(len(work.x), work.outputs)
            return self._finished("decay", work, store, work.decay_only)["decay"]

    def predict(self, x: ArrayLike, store: str | Path | None = None) -> Tensor:
        """Outputs rebuilt from the start, all training points and weight decay: (n, ...) -> (n, k).

        What all points and decay together moved in a step is its displacement, which is on record: no
        training point is visited. With a choice of steps or modules, these alone are added to the start,
        from gradients that are computed anew.
        """
        with self._open(x) as work:
            if self.steps is None and self.modules is None:
                total = self._finished("displacements", work, store, work.displace)
                return work.outputs_at(0) + total["points"]
            total = self._finished("sums", work, store, work.sum_up)
            return work.outputs_at(0) + total["points"] + total["decay"]

    def residual(self, x: ArrayLike, store: str | Path | None = None) -> Tensor:
        """Start, training points and decay minus the network: (n, ...) -> (n, k). It needs no reference.

        The gradients of each step are computed anew from its training points, and moved by the
        optimiser's rule, so that errors of quadrature, of the rule and of the record all show.
        """
        with replace(self, steps=None, modules=None)._open(x) as work:
            total = self._finished("sums", work, store, work.sum_up)
            rebuilt = work.outputs_at(0) + total["points"] + total["decay"]
            return rebuilt - work.outputs_at(self.run.steps)

    def defects(self, x: ArrayLike) -> Tensor:
        r"""$\psi_s\,(w_{s+1} - w_s) - (f_{w_{s+1}} - f_{w_s})$ of each step: (n, ...) -> (N, n, k).

        After `during(steps)` of these steps, in their order.
        """
        self._require_all_modules("A defect compares with the difference of outputs")
        chosen = range(self.run.steps) if self.steps is None else self.steps
        with self._open(x) as work:
            steps = progress_bar(chosen, of="steps", show=self.progress)
            defects = [work.nodes(work.segment(s)).defect for s in steps]
            return torch.stack(defects) if defects else work.new_zeros(0, len(work.x), work.outputs)

    def top(self, x: ArrayLike, count: int = 10, store: str | Path | None = None) -> Top:
        """The training points, or groups, that moved each point's largest output most, either way."""
        whole("count", count)
        outputs, scores = self.network(x), self.attributions(x, store)
        which = outputs.argmax(1)
        rows = torch.arange(len(which), device=which.device)
        own = scores[rows, which]  # (n, M)
        order = own.abs().sort(dim=1, descending=True, stable=True).indices[:, :count]
        return Top(which, outputs[rows, which], order, own.gather(1, order))

    def influence(self, x: ArrayLike, signals: ArrayLike | None = None) -> Tensor:
        """What would change if a training point had more weight, (n, ...) -> (n, k, M): see `influence`.

        Attributions say what a point did, and influence what would have happened otherwise: they differ.
        With groups it is the derivative by a weight that the points of a group share, (n, k, G); after
        `during(steps)` by weights in these steps only.
        """
        self._require_all_modules("The weight of a training point moves all modules at once")
        derivatives = influence(
            self.run, x, signals, steps=self.steps, memory=self.memory, progress=self.progress
        )
        if self.groups is None:
            return derivatives
        sums = derivatives.new_zeros(*derivatives.shape[:2], int(self.groups.max()) + 1)
        return sums.index_add_(2, self.groups, derivatives)

    # As a kernel machine.

    def gram(self, x: ArrayLike | Copy, y: ArrayLike | Copy | None = None) -> Tensor:
        r"""The exact path kernel of plain gradient descent on the two copies of the space of points.

        $$K = \sum_s \varepsilon_s \int_0^1 \varphi_{s,t}(x)\,\varphi_{s,t}(y)^T dt, \qquad
          \varphi_{s,t}(x, 0) = J_{w_s(t)}(x), \quad \varphi_{s,t}(x, 1) = J_{w_s(0)}(x)$$

        x, y: points (n, ...) and (m, ...), or `Copy(points, 0)` for points to be predicted and
        `Copy(points, 1)` for
            points as training sees them. Plain x are copy 0, plain y copy 1; y = None is x again. The
            copy decides, and not whether a point is among the training points: (56) of the paper is an
            erratum.

        Returned are blocks (n, m, k, k). Refused are optimisers with a memory, and learning rates below 0.
        """
        one = x if isinstance(x, Copy) else Copy(x, 0)
        other = one if y is None else y if isinstance(y, Copy) else Copy(y, 1)
        with self._open(one.points) as left, self._open(other.points) as right:
            n, k, m = len(left.x), left.outputs, len(right.x)
            total = left.new_zeros(n, m, k, k)
            steps = range(self.run.steps) if self.steps is None else self.steps
            for s in progress_bar(steps, of="steps", show=self.progress):
                if rate := self.rate(s):
                    total += rate * gram_of_step(left, right, one.copy, other.copy, s)
            return total

    def kernel(self) -> TwoCopyKernel:
        """The mean diagonal of `gram` as a Kernel of points (n, d + 1), the last number being the copy."""
        return TwoCopyKernel(self)

    def rate(self, step: int) -> float:
        """The number eps_s of a step w_{s+1} = w_s - eps_s g_s; optimisers with a memory are refused."""
        scalar = self.run.rule.scalar(step)
        if scalar is None or scalar > 0:
            raise InputError(
                f"Step {step} is not a learning rate times its gradient, so that there is no single kernel: "
                "attributions are exact for every optimiser; a Gram matrix needs plain SGD."
            )
        return -scalar

    def coefficients(self, step: int) -> Tensor:
        r"""$-\omega_i\,\ell'_{i,s}$ of each training point in a step, (M, k), and 0 outside its batch.

        For any loss of the outputs, `start + sum over s of gram of step s times these` is the network:
        the ensemble of kernel machines of Theorem 3.6, with `during(s).gram(x, run.x)` as the kernel of
        each step.
        """
        with self._open(self.run.x[:1]) as work:
            batch = self.run.batch(step)
            signals, _ = work.signals(step, batch)
            coefficients = signals.new_zeros(len(self.run.x), signals.shape[1])
            return coefficients.index_add_(0, batch, -signals)

    def machine(self) -> KernelMachine:
        """One kernel and one coefficient for each training point and output, where the loss allows it.

        Theorem 3.7, for a loss whose derivative by the outputs is the same in all steps, such as the negative
        log-likelihood of log-softmax outputs, and full batches. Other losses and batches are refused.
        """
        first = self.coefficients(0)
        allowed = ROUNDINGS * torch.finfo(first.dtype).eps * first.abs().max()
        for s in range(self.run.steps):
            self.rate(s)
            if len(self.run.batch(s)) != len(self.run.x):
                raise InputError(
                    f"Step {s} saw {len(self.run.batch(s))} of {len(self.run.x)} training points, so that "
                    "their coefficients change from step to step: a single kernel needs full batches. Use "
                    "attributions, or the ensemble of coefficients(s)."
                )
            if s and (self.coefficients(s) - first).abs().max() > allowed:
                raise InputError(
                    f"The derivative of the loss by the outputs has changed by step {s}, so that there is no "
                    "single kernel machine: end the model in log-softmax and take NLLLoss, or use "
                    "attributions, or the ensemble of coefficients(s)."
                )
        return KernelMachine(self, first)

    # How it is computed.

    def _require_all_modules(self, why: str) -> None:
        if self.modules is not None:
            raise InputError(
                f"{why}, so that there is no part of it within {', '.join(self.modules)}: ask before "
                "`within` is chosen."
            )

    @contextmanager
    def _open(self, x: ArrayLike) -> Iterator[Computation]:
        model = Model.of(self.run.model)
        x, parameters = self.run.points(x), self.run.parameters(0)
        with evaluation_mode(model), plain_attention(), torch.no_grad():
            outputs = run_or_explain(partial(model.functional_call, parameters), x.clone())
            count = outputs.flatten(1).shape[1]
            yield Computation(
                self.run, self._choices, model, x, count, rows_have_rules(model, parameters, x)
            )

    def _finished(
        self,
        what: str,
        work: Computation,
        store: str | Path | None,
        step: Callable[[int, State], None],
    ) -> State:
        """All steps from the last to the first, resumed from the file if there is one."""
        run = self.run
        key = fingerprint(
            what, work.x, run.parameters(0), run.parameters(run.steps), run.steps, run.x, run.y,
            repr(self.quadrature), self.steps, self.modules, self.groups,
        ) if store is not None else ""  # fmt: skip
        file = checkpoint(store, key, "another record, other points or other choices")
        state: State = file.read(work.x.device) or work.fresh(what)
        todo = state.pop("left", run.steps)
        work.guess[0] = state.pop("guess", 0)
        with progress_bar(of="steps", show=self.progress, total=run.steps) as bar:
            bar.update(run.steps - todo)
            for s in range(todo - 1, -1, -1):
                step(s, state)
                file.write_when_due(lambda s=s: {**state, "left": s, "guess": work.guess[0]})
                bar.update()
        if store is not None:
            file.write({**state, "left": 0})
        return state

    @property
    def _choices(self) -> Choices:
        return Choices(self.quadrature, self.memory, self.steps, self.modules, self.groups)


@dataclass(frozen=True)
class Top:
    """The largest output of each point, and the training points or groups that moved it most, as a table."""

    output: Tensor  # (n,), which
    value: Tensor  # (n,)
    index: Tensor  # (n, count), training points, the largest absolute attribution first
    attribution: Tensor  # (n, count)

    def __str__(self) -> str:
        lines = [f"{'point':>6} {'output':>6} {'value':>11}  training point: what it added"]
        columns = zip(
            *(v.tolist() for v in (self.output, self.value, self.index, self.attribution)),
            strict=True,
        )
        for a, (output, value, index, scores) in enumerate(columns):
            added = ", ".join(f"{i}: {s:+.3g}" for i, s in zip(index, scores, strict=True))
            lines.append(f"{a:>6} {output:>6} {value:>11.5g}  {added}")
        return "\n".join(lines)
