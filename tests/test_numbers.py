"""Numbers are shown and recorded; what is no number is refused."""

import json

import numpy as np
import pytest
import torch

from analytic import InputError
from notebooks.report import anatomy
from notebooks.running.numbers import MIME, record


def test_numbers_of_every_kind_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    monkeypatch.setattr(
        "IPython.display.display", lambda one: shown.append(one._repr_mimebundle_())
    )
    record(a=1, b=0.5, c=np.float64(2.5), d=torch.tensor([3.0]), e=np.int64(4), f=-np.inf)
    (data,) = shown
    expected = {"a": 1, "b": 0.5, "c": 2.5, "d": 3.0, "e": 4, "f": "-inf"}
    assert json.loads(json.dumps(data[MIME], allow_nan=False)) == expected
    assert data["text/plain"] == "a = 1, b = 0.5, c = 2.5, d = 3, e = 4, f = -inf"
    assert "<td>2.5</td>" in data["text/html"]
    notebook = {"cells": [{"outputs": [{"data": data}, {"name": "stdout", "text": ""}]}, {}]}
    assert anatomy.numbers(notebook) == expected


@pytest.mark.parametrize("value", ["abc", "1.0", None, [1, 2], np.ones(2), torch.ones(3), 1j])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(InputError, match=r"^bad .*\.$"):
        record(bad=value)


def test_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="no number"):
        record()
