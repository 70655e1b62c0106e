r"""The exact path kernel: a trained network's outputs as a sum over what each training point did in each step.

$$f_{w_N}(x) = f_{w_0}(x) + \sum_i A_i(x) + D(x), \qquad
  A_i(x) = \sum_r u_r(x)\,\omega_{i,r} J_{w_r}(x_i)^T \ell'_{i,r}, \qquad u_r = \sum_{s \ge r} \psi_s B_{s,r}$$

where $\psi_s(x) = \int_0^1 J_{w_s + t(w_{s+1} - w_s)}(x)\,dt$, $\omega\,\ell'$ is the derivative of the step's loss by the
outputs of point i, $B$ says how gradients move the weights, and D is what weight decay moved. (Bell et al. 2023, (7)
and Algorithm 1, corrected; other optimisers by their linear maps.)

Sign and scale: `attributions(x)[a, k, i]` is in the units of the output k at the point a, and positive if the point i
raised it. Summed over i, with `start(x)` and `decay(x)`, attributions are the network's outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, as_numbers, require_instance, whole
from numeric.models import Meter, Model, evaluation_mode
from numeric.models.memory import GIGABYTE
from numeric.models.model import plain_attention
from numeric.models.output_checks import run_or_explain
from numeric.path_kernel.integrals import dense_as, integrals, joined
from numeric.path_kernel.quadrature import GaussLegendre, Nodes, Quadrature
from numeric.path_kernel.record import Record
from numeric.path_kernel.segments import Segment, rows_have_rules
from numeric.progress import progress_bar
from numeric.runs.store import checkpoint, fingerprint
from numeric.tangents import Gradients
from numeric.tangents.differentiation import Differentiation, differentiation

ByName = dict[str, Tensor]
SHARE = 8  # of the memory, for each of the arrays that are held at once


@dataclass(frozen=True, eq=False)
class ExactPathKernel:
    """What every training point, and weight decay, added to the outputs of a recorded model.

    run: a `Record`, as `path_kernel.record` returns it.
    quadrature: `GaussLegendre()`, exact to rounding; `LeftRiemann(T)` for Algorithm 1 as the paper prints it, and
        `LeftRiemann(1)` for the discrete path kernel.
    memory: a budget in bytes, beside the record, the points and the results.
    progress: whether to show a progress bar.

    `during(steps)` and `within(modules)` count only the displacements of some steps, or of some modules' parameters;
    `grouped(labels)` and `by_class()` add up the attributions of groups of points. Each returns an ExactPathKernel, and
    they compose. Parts add up to the whole.

    >>> from functools import partial
    >>> from numeric import path_kernel
    >>> x = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> net = torch.nn.Sequential(torch.nn.Linear(1, 5), torch.nn.ReLU(), torch.nn.Linear(5, 1)).double()
    >>> sgd = partial(torch.optim.SGD, lr=0.5)
    >>> run = path_kernel.record(net, torch.nn.MSELoss(), sgd, (x, x**2), steps=5, device="cpu", progress=False)
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
    groups: Tensor | None = field(default=None, repr=False)  # (M,), the group of each training point

    def __post_init__(self) -> None:
        require_instance("run", self.run, Record, "path_kernel.record(...) returns it")
        whole("memory", self.memory)
        if not callable(getattr(self.quadrature, "nodes", None)):
            raise InputError(
                f"quadrature = {self.quadrature!r} was given, but an object such as GaussLegendre() or "
                "LeftRiemann(100) is needed."
            )

    # Choices of what counts.

    def during(self, steps: int | Iterable[int]) -> ExactPathKernel:
        """Count only the gradients and the weight decay of some steps, numbered from 0 to N - 1."""
        chosen = (steps,) if isinstance(steps, int) else tuple(steps)
        for step in chosen:
            if not 0 <= whole("step", step, 0) < self.run.steps:
                raise InputError(
                    f"Step {step} was asked for, but the record's steps are 0 to {self.run.steps - 1}."
                )
        if not chosen or len(set(chosen)) < len(chosen):
            raise InputError(f"steps must be one at least, and differ, not {chosen}.")
        kept = chosen if self.steps is None else tuple(s for s in chosen if s in self.steps)
        return replace(self, steps=kept)

    def within(self, modules: str | Iterable[str]) -> ExactPathKernel:
        """Count only what moved the parameters of some modules, by name; of nested choices, the last."""
        names = (modules,) if isinstance(modules, str) else tuple(modules)
        moved = self.run.parameters(0)
        chosen = Model.of(self.run.model).parameters(trainable=False, modules=names)
        if not set(chosen) & set(moved):
            raise InputError(f"Training moved no parameter in {', '.join(names)}: choose other modules.")
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
            raise InputError("labels must be whole numbers from 0, the group of each training point.")
        return replace(self, groups=labels.to(self.run.x.device, torch.int64))

    def by_class(self) -> ExactPathKernel:
        """Groups by class: the record's targets are class numbers (M,), or rows (M, K) of their probabilities."""
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
            return self._finished("decay", work, store, work.decay_only)["decay"]

    def predict(self, x: ArrayLike, store: str | Path | None = None) -> Tensor:
        """Outputs rebuilt from the start, all training points and weight decay: (n, ...) -> (n, k).

        What all points and decay together moved in a step is its displacement, which is on record: no training
        point is visited. With a choice of steps or modules, these alone are added to the start, from gradients
        that are computed anew.
        """
        with self._open(x) as work:
            if self.steps is None and self.modules is None:
                total = self._finished("displacements", work, store, work.displace)
                return work.outputs_at(0) + total["points"]
            total = self._finished("sums", work, store, work.sum_up)
            return work.outputs_at(0) + total["points"] + total["decay"]

    def residual(self, x: ArrayLike, store: str | Path | None = None) -> Tensor:
        """Start, training points and decay minus the network, (n, ...) -> (n, k): an error without a reference.

        The gradients of each step are computed anew from its training points, and moved by the optimiser's rule, so
        that errors of quadrature, of the rule and of the record all show.
        """
        with replace(self, steps=None, modules=None)._open(x) as work:
            total = self._finished("sums", work, store, work.sum_up)
            rebuilt = work.outputs_at(0) + total["points"] + total["decay"]
            return rebuilt - work.outputs_at(self.run.steps)

    def defects(self, x: ArrayLike) -> Tensor:
        r"""$\psi_s(x)\,(w_{s+1} - w_s) - (f_{w_{s+1}}(x) - f_{w_s}(x))$ of each step: (n, ...) -> (N, n, k)."""
        with self._open(x) as work:
            steps = progress_bar(range(self.run.steps), of="steps", show=self.progress)
            return torch.stack([work.nodes(work.segment(s)).defect for s in steps])

    def top(self, x: ArrayLike, count: int = 10, store: str | Path | None = None) -> Top:
        """The training points, or groups, that moved each point's largest output most, either way."""
        whole("count", count)
        outputs, scores = self.network(x), self.attributions(x, store)
        which = outputs.argmax(1)
        rows = torch.arange(len(which), device=which.device)
        own = scores[rows, which]  # (n, M)
        order = own.abs().argsort(1, descending=True, stable=True)[:, : min(count, own.shape[1])]
        return Top(which, outputs[rows, which], order, own.gather(1, order))

    # How it is computed.

    @contextmanager
    def _open(self, x: ArrayLike) -> Iterator[_Work]:
        model = Model.of(self.run.model)
        x = as_numbers("x", x)
        expected = self.run.x.shape[1:]
        if x.shape[1:] != expected or not x.ndim or not len(x):
            raise InputError(
                f"x of shape {tuple(x.shape)} was given, but the record's points are of shape "
                f"(n, {', '.join(map(str, expected))})."
            )
        x = x.to(self.run.x.device, self.run.x.dtype)
        parameters = self.run.parameters(0)
        model.check_points(x)
        with evaluation_mode(model), plain_attention(), torch.no_grad():
            outputs = run_or_explain(partial(model.functional_call, parameters), x.clone())
            count = outputs.flatten(1).shape[1]
            yield _Work(self, model, x, count, rows_have_rules(model, parameters, x))

    def _finished(
        self, what: str, work: _Work, store: str | Path | None, step: Callable[[int, State], None]
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
        with progress_bar(of="steps", show=self.progress, total=run.steps) as bar:
            bar.update(run.steps - todo)
            for s in range(todo - 1, -1, -1):
                step(s, state)
                file.write_when_due(lambda s=s: {**state, "left": s})
                bar.update()
        if store is not None:
            file.write({**state, "left": 0})
        return state

    def counts(self, step: int) -> bool:
        """Whether what a step did counts."""
        return self.steps is None or step in self.steps


State = dict[str, Any]  # sums so far, and the buffer of covectors


@dataclass(frozen=True)
class Top:
    """Of each point, its largest output and the training points or groups that moved it most; it prints as a table."""

    output: Tensor  # (n,), which
    value: Tensor  # (n,)
    index: Tensor  # (n, count), training points, the largest absolute attribution first
    attribution: Tensor  # (n, count)

    def __str__(self) -> str:
        lines = [f"{'point':>6} {'output':>6} {'value':>11}  training point: what it added"]
        columns = zip(*(v.tolist() for v in (self.output, self.value, self.index, self.attribution)), strict=True)
        for a, (output, value, index, scores) in enumerate(columns):
            added = ", ".join(f"{i}: {s:+.3g}" for i, s in zip(index, scores, strict=True))
            lines.append(f"{a:>6} {output:>6} {value:>11.5g}  {added}")
        return "\n".join(lines)


def _moved(opened: Differentiation, parameters: ByName) -> Differentiation:
    """Parameters that training did not move have no displacement: they are no leaves."""
    leaves = {name: value for name, value in opened.leaves.items() if name in parameters}
    others = {k: v.detach() for k, v in opened.leaves.items() if k not in parameters}
    left = tuple(name for name in opened.fallbacks if name in parameters)
    return replace(opened, leaves=leaves, fixed={**opened.fixed, **others}, fallbacks=left)


@dataclass(frozen=True, eq=False)
class _Work:
    """One computation: the model opened at the points and at the training points."""

    kernel: ExactPathKernel
    model: Model
    x: Tensor  # (n, ...)
    outputs: int  # k
    by_rows: bool
    guess: list[int] = field(default_factory=lambda: [0])  # nodes on a part, in the last step
    last: dict[int, Segment] = field(default_factory=dict)  # the segment that was made last, by its step

    @property
    def run(self) -> Record:
        return self.kernel.run

    @cached_property
    def test(self) -> Differentiation:
        return self._opened(self.x)

    @cached_property
    def train(self) -> Differentiation:
        return self._opened(self.run.x)

    def _opened(self, x: Tensor) -> Differentiation:
        parameters = self.run.parameters(0)
        with differentiation(self.model, x, parameters, self.kernel.modules) as opened:
            return _moved(opened, parameters)

    def segment(self, s: int) -> Segment:
        """The segment of step s, which shares its end with the one made before, if that was step s + 1."""
        after = self.last.get(s + 1)
        stop = self.run.parameters(s + 1) if after is None else after.start
        end = None if after is None else after.outputs_at_start
        made = Segment(self.model, self.run.parameters(s), stop, self.x, self.by_rows, end)
        self.last.clear()
        self.last[s] = made
        return made

    def nodes(self, segment: Segment) -> Nodes:
        """The nodes, first tried with as many as the last step needed."""
        found = self.kernel.quadrature.nodes(segment, self.guess[0])
        self.guess[0] = found.count
        return found

    def outputs_at(self, s: int) -> Tensor:
        return self.model.functional_call(self.run.parameters(s), self.x.clone()).flatten(1)

    def fresh(self, what: str) -> State:
        n, k = len(self.x), self.outputs
        zero = self.x.new_zeros(n, k)
        if what != "attributions":
            return {"points": zero, "decay": zero.clone(), "buffer": None}
        groups = self.kernel.groups
        m = len(self.run.x) if groups is None else int(groups.max()) + 1
        return {"points": self.x.new_zeros(n, k, m), "buffer": None}

    # One step each, from the last to the first.

    def attribute(self, s: int, state: State) -> None:
        scalar = self.run.rule.scalar(s)
        if scalar is None or state["buffer"]:
            on_gradient = self._pulled_back(s, state)[0]
            if self.kernel.counts(s):
                self._add(state, s, lambda train: _along(train, on_gradient))
            return
        if not self.kernel.counts(s):
            return
        segment = self.segment(s)
        nodes = self.nodes(segment)
        psi = joined(list(integrals(self.test, segment, nodes, self.rows)))
        back = psi.points.argsort()

        def products(train: Gradients) -> Tensor:
            found = psi.gradients.inner(dense_as(train, psi.gradients))[..., 0]
            return (scalar * found)[back]

        self._add(state, s, products)

    def _add(self, state: State, s: int, products: Callable[[Gradients], Tensor]) -> None:
        """Add what the examples of a step contributed, some examples at a time."""
        batch = self.run.batch(s)
        signals, opened = self._signals(s, batch)
        groups = self.kernel.groups
        n, k = state["points"].shape[:2]
        size = max(1, self.kernel.memory // SHARE // (8 * n * k * 4))
        for rows in torch.arange(len(batch), device=batch.device).split(size):
            train = opened.gradients(self.train.points[batch[rows]], signals[rows, None])
            places = batch[rows] if groups is None else groups[batch[rows]]
            state["points"].index_add_(2, places, products(train))

    def _signals(self, s: int, batch: Tensor) -> tuple[Tensor, Differentiation]:
        """The derivative of the step's loss by the outputs of its examples, (m, k), and where gradients are taken."""
        parameters = self.run.parameters(self.run.rule.gradient_at(s))
        with torch.enable_grad():
            outputs = self.model.functional_call(parameters, self.run.x[batch].clone()).detach()
            outputs.requires_grad_()
            value = self.run.loss(outputs, self.run.y[batch])
            (signals,) = torch.autograd.grad(value, outputs)
        return signals.flatten(1), self.train.at(parameters)

    def _total_gradient(self, s: int) -> ByName:
        """g_s, computed from the training points at once."""
        batch = self.run.batch(s)
        parameters = self.run.parameters(self.run.rule.gradient_at(s))
        leaves = {name: parameters[name].requires_grad_() for name in self.test.leaves}
        with torch.enable_grad():
            outputs = self.model.functional_call({**parameters, **leaves}, self.run.x[batch].clone())
            value = self.run.loss(outputs, self.run.y[batch])
            found = torch.autograd.grad(value, list(leaves.values()))
        return dict(zip(leaves, found, strict=True))

    def displace(self, s: int, state: State) -> None:
        """Add psi_s (w_{s+1} - w_s), which is the difference of outputs but for the quadrature's defect."""
        segment = self.segment(s)
        state["points"] += self.nodes(segment).integral

    def sum_up(self, s: int, state: State) -> None:
        scalar = self.run.rule.scalar(s)
        if scalar is None or state["buffer"]:
            on_gradient, on_decay = self._pulled_back(s, state)
            if self.kernel.counts(s):
                state["points"] += _product(on_gradient, self._total_gradient(s), self.x)
                state["decay"] += _product(on_decay, self.run.parameters(s), self.x)
            return
        if not self.kernel.counts(s):
            return
        segment = self.segment(s)
        nodes = self.nodes(segment)
        step = {name: scalar * g for name, g in self._total_gradient(s).items()}
        self._move(segment, nodes, step, state["points"])
        self._move(segment, nodes, self._decay_step(s), state["decay"])

    def decay_only(self, s: int, state: State) -> None:
        if self.run.rule.scalar(s) is None or state["buffer"]:
            _, on_decay = self._pulled_back(s, state)
            if self.kernel.counts(s):
                state["decay"] += _product(on_decay, self.run.parameters(s), self.x)
        elif self.kernel.counts(s) and (step := self._decay_step(s)):
            segment = self.segment(s)
            self._move(segment, self.nodes(segment), step, state["decay"])

    def _decay_step(self, s: int) -> ByName:
        """c_s of a rule without memory, whose maps are their own transposes."""
        weights = {n: w for n, w in self.run.parameters(s).items() if n in self.test.leaves}
        return self.run.rule.pull_back(s, weights).on_decay

    def _move(self, segment: Segment, nodes: Nodes, step: ByName, total: Tensor) -> None:
        """Add psi_s(x) times a displacement."""
        if not step:
            return
        for rows in torch.arange(len(nodes), device=self.x.device).split(self.rows):
            index = nodes.index[rows]
            _, slopes = segment.slopes(index, nodes.t[rows], step)
            total.index_add_(0, index, nodes.weight[rows, None] * slopes)

    def _pulled_back(self, s: int, state: State) -> tuple[ByName, ByName]:
        """What multiplies g_s and w_s, (n, k, *shape) by name; the buffer is in the state."""
        segment = self.segment(s)
        nodes = self.nodes(segment)
        n, k = len(self.x), self.outputs
        psi = {name: v.new_empty(n, k, *v.shape) for name, v in segment.start.items() if name in self.test.leaves}
        for one in integrals(self.test, segment, nodes, self.rows):
            for name, value in one.gradients.dense().items():
                psi[name][one.points] = value
        on_gradient, on_decay, buffer = self.run.rule.pull_back(s, psi, state["buffer"])
        state["buffer"] = buffer
        return on_gradient, on_decay

    @cached_property
    def rows(self) -> int:
        """How many rows of points at nodes may be differentiated at once."""
        with Meter() as meter:
            self.test.gradients(self.test.points[:1], None)
        rows = self.kernel.memory // SHARE // max(1, meter.peak)
        if not rows:
            raise InputError(
                f"memory = {self.kernel.memory} bytes was given, but the gradients at one point need "
                f"{SHARE * meter.peak}: give at least that, or choose fewer modules."
            )
        return rows


def _along(train: Gradients, directions: ByName) -> Tensor:
    """Inner products with covectors (n, k, *shape) by name: (n, k, m)."""
    n, k = next(iter(directions.values())).shape[:2]
    flat = {name: value.flatten(0, 1) for name, value in directions.items()}
    return train.along(flat)[:, 0].T.unflatten(0, (n, k))


def _product(covectors: ByName, vectors: ByName, like: Tensor) -> Tensor:
    """The sum over parameters of covectors (n, k, *shape) times a vector: (n, k)."""
    total = like.new_zeros(())
    for name, covector in covectors.items():
        total = total + covector.flatten(2) @ vectors[name].flatten()
    return total
