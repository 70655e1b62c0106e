"""The result of a training run: losses, snapshots, and a statement of what was minimised, and how."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor, nn

from numeric.inputs import InputError

Loss = Callable[[Tensor, Tensor], Tensor]  # outputs and targets of a batch -> a number
Data = tuple[Tensor, Tensor]  # inputs and targets, examples along the first axis
StateDict = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Run:
    """One run. Nothing but `loss` was minimised: no penalty is added anywhere."""

    loss: Loss
    data: Data = field(repr=False)
    statement: str  # loss, data, optimiser with its settings, batches, steps, seed
    losses: Tensor = field(repr=False)  # (steps,), of each batch before its update
    snapshots: Mapping[int, StateDict] = field(
        repr=False
    )  # step -> state dict, 0 and the last included
    template: nn.Module = field(repr=False)

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps of which there are snapshots."""
        return tuple(sorted(self.snapshots))

    @property
    def model(self) -> nn.Module:
        """The model after training."""
        return self.model_at(self.steps[-1])

    def model_at(self, step: int) -> nn.Module:
        """A new model with the parameters after so many updates."""
        if step not in self.snapshots:
            raise InputError(
                f"There is no snapshot of step {step}, only of {self.steps}: name it in `at`."
            )
        model = copy.deepcopy(self.template)
        model.load_state_dict(self.snapshots[step])
        return model
