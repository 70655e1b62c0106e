"""The store: identity of a run, arrays that only grow, and room on the disk."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from numeric.inputs import InputError
from numeric.runs import store
from numeric.runs.store import GrowingArray, checkpoint, fingerprint

X = torch.arange(6, dtype=torch.float64).reshape(2, 3)


def test_a_fingerprint_sees_values_shapes_kinds_and_order() -> None:
    settings = [
        (X,), (X.float(),), (X.reshape(3, 2),), (X + 1e-16,), ([X, 1],), ([1, X],),
        ({"x": X},), ({"y": X},), (X, X), ([X, X],), ("1",), (1,),
    ]  # fmt: skip
    assert len({fingerprint(*one) for one in settings}) == len(settings)
    assert fingerprint(X.clone(), {"a": 1}) == fingerprint(X, {"a": 1})
    assert fingerprint(X.T.contiguous().T) == fingerprint(X)  # strides are no values


def test_states_are_read_by_the_run_that_wrote_them(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "state.pt"
    mine = checkpoint(path, "mine")
    assert mine.read() is None
    mine.write({"x": X})
    assert torch.equal(checkpoint(str(path), "mine").read()["x"], X)
    with pytest.raises(InputError, match="other settings: delete it"):
        checkpoint(path, "yours").read()
    with pytest.raises(InputError, match="another model: delete it"):
        checkpoint(path, "yours", "another model").read()


def test_without_a_path_nothing_is_stored() -> None:
    nowhere = checkpoint(None, "mine")
    nowhere.write({"x": X})
    nowhere.write_when_due(lambda: 1 / 0)
    assert nowhere.read() is None


def test_a_state_is_made_and_written_only_when_it_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = checkpoint(tmp_path / "state.pt", "mine")
    file.write_when_due(lambda: 1 / 0)
    assert not file.path.exists()
    monkeypatch.setattr(store, "PAUSE", -1.0)
    file.write_when_due(lambda: {"x": X})
    assert torch.equal(file.read()["x"], X)


@pytest.mark.parametrize("store", [3, ["run.pt"], b"run.pt\0", "run\0.pt", 0.5])
def test_what_is_no_path_is_told(store: object) -> None:
    with pytest.raises(InputError):
        checkpoint(store, "mine")


def test_an_array_grows_and_survives_an_interrupt(tmp_path: Path) -> None:
    path = tmp_path / "weights.rows"
    array = GrowingArray(path, "run", (2, 3))
    assert array.rows().shape == (0, 2, 3)
    for k in range(3):
        array.append(k * X)
    with path.open("ab") as file:
        file.write(b"half a row")
    size = path.stat().st_size
    again = GrowingArray(path, "run", (2, 3))
    assert len(again) == len(again.rows()) == 3
    assert path.stat().st_size == size  # whoever reads leaves alone what another may be writing
    again.append((3 * X).numpy())
    assert np.array_equal(again.rows(), np.stack([(k * X).numpy() for k in range(4)]))
    assert not again.rows().flags.writeable
    again.truncate(2)
    assert np.array_equal(again.rows()[-1], X.numpy())
    again.extend(torch.stack([2 * X, 3 * X]))
    again.flush()
    assert np.array_equal(again.rows(), np.stack([(k * X).numpy() for k in range(4)]))
    with pytest.raises(InputError, match="has 4 rows, not 5"):
        again.truncate(5)
    path.unlink()
    with pytest.raises(InputError, match="can no longer be read"):
        again.rows()


def test_an_array_of_another_run_shape_or_disk_is_refused(tmp_path: Path) -> None:
    array = GrowingArray(tmp_path / "a", "run", (3,), "float32")
    for run, shape, dtype in (("other", (3,), "<f4"), ("run", (4,), "<f4"), ("run", (3,), "<f8")):
        with pytest.raises(InputError, match="another run"):
            GrowingArray(tmp_path / "a", run, shape, dtype)
    with pytest.raises(InputError, match=r"shape \(3,\)"):
        array.append(X)
    with pytest.raises(InputError, match=r"Rows of shape \(3,\)"):
        array.extend(X.T)
    with pytest.raises(InputError, match="GB are free"):
        array.require_room(10**18)
    array.require_room(1)


def test_what_is_far_behind_the_end_leaves_the_memory_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the last rows, and it reads as it was; where the system cannot be asked, it is not."""
    array = GrowingArray(tmp_path / "rows", "a run", (4,))
    head, released = array.path.stat().st_size, []
    monkeypatch.setattr(store, "CACHED", 2 * 32)
    monkeypatch.setattr(os, "posix_fadvise", lambda _, *of: released.append(of[:2]), raising=False)
    for k in range(4):
        array.append(torch.full((4,), float(k)))
    ends = [head + rows * 32 - 2 * 32 for rows in (1, 2, 3, 4)]
    assert released == [(0, end) for end in ends if end > 0]
    monkeypatch.delattr(os, "posix_fadvise")
    array.append(torch.full((4,), 4.0))
    assert array.rows()[:, 0].tolist() == [0, 1, 2, 3, 4]
