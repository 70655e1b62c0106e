"""Are labelled images read as they were written, and is everything else refused with its place?"""

from __future__ import annotations

import gzip
import hashlib
import os
import pickle
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from analytic import InputError
from numeric import data
from numeric.data import ImageData, Normalisation
from refusals import require_refusals

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (12, 5, 4), dtype=np.uint8)
LABELS = np.arange(12, dtype=np.uint8) % 3
COLOURS = RNG.integers(0, 256, (8, 3, 32, 32), dtype=np.uint8)
KINDS = np.array([3, 9, 0, 1, 2, 3, 4, 5], dtype=np.uint8)


def write_idx(folder: Path, ending: str = "", dot: str = "-") -> Path:
    for part, rows in (("train", slice(0, 9)), ("t10k", slice(9, 12))):
        for what, array in (("images", IMAGES[rows]), ("labels", LABELS[rows])):
            head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
            content = head + array.tobytes()
            name = f"{part}-{what}{dot}idx{array.ndim}-ubyte{ending}"
            (folder / name).write_bytes(gzip.compress(content) if ending else content)
    return folder


def write_binary(folder: Path) -> Path:
    for name, rows in (("data_batch_1", slice(0, 6)), ("test_batch", slice(6, 8))):
        records = np.concatenate([KINDS[rows, None], COLOURS[rows].reshape(-1, 3072)], 1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    return folder


def write_python(folder: Path, protocol: int = 2) -> Path:
    for name, rows in (("data_batch_1", slice(0, 6)), ("test_batch", slice(6, 8))):
        batch = {b"data": COLOURS[rows].reshape(-1, 3072), b"labels": KINDS[rows].tolist()}
        (folder / name).write_bytes(pickle.dumps(batch, protocol))
    return folder


def write_folders(folder: Path, sizes: tuple[tuple[int, int], ...] = ((5, 4),)) -> Path:
    image = pytest.importorskip("PIL.Image")
    for k in range(8):
        home = folder / ("cats" if k % 2 else "dogs")
        home.mkdir(parents=True, exist_ok=True)
        height, width = sizes[k % len(sizes)]
        pixels = RNG.integers(0, 256, (height, width, 3), dtype=np.uint8)
        image.fromarray(pixels).save(home / f"{k}.png")
    return folder


@pytest.mark.parametrize(("ending", "dot"), [("", "-"), (".gz", "-"), ("", ".")])
def test_idx_files_are_read_as_written(tmp_path: Path, ending: str, dot: str) -> None:
    train, test = data.load(write_idx(tmp_path, ending, dot))
    assert np.array_equal(train.pixels[:, 0], IMAGES[:9])
    assert np.array_equal(test.pixels[:, 0], IMAGES[9:])
    assert test.labels.tolist() == LABELS[9:].tolist()
    assert test.normalisation is train.normalisation


@pytest.mark.parametrize("write", [write_binary, write_python, lambda f: write_python(f, 4)])
def test_both_layouts_of_cifar_are_read_as_written(tmp_path: Path, write: Callable) -> None:
    (tmp_path / "cifar-10-batches-bin").mkdir()
    train, test = data.load(write(tmp_path / "cifar-10-batches-bin").parent)
    assert np.array_equal(train.pixels, COLOURS[:6])
    assert np.array_equal(test.pixels, COLOURS[6:])
    assert [train.classes[k] for k in train.labels[:3]] == ["cat", "truck", "airplane"]


def test_a_pickle_of_python_2_is_read(tmp_path: Path) -> None:
    """Its texts are bytes, and its arrays are named as they were before numpy 2."""
    new = pickle.dumps({"data": COLOURS[:6].reshape(-1, 3072), "labels": KINDS[:6].tolist()}, 2)
    old = new.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    write_python(tmp_path)
    (tmp_path / "data_batch_1").write_bytes(old)
    assert np.array_equal(data.cifar10(tmp_path).train.pixels, COLOURS[:6])


class _Harmful:
    def __reduce__(self) -> tuple:
        return os.mkdir, ("executed",)


def test_nothing_in_a_pickle_is_executed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_python(tmp_path)
    for batch in (_Harmful(), {"data": _Harmful(), "labels": [1]}):
        (tmp_path / "data_batch_1").write_bytes(pickle.dumps(batch))
        with pytest.raises(InputError, match=r"mkdir.*not run"):
            data.cifar10(tmp_path)
    assert not (tmp_path / "executed").exists()


def test_folders_of_images_are_split_scaled_and_taken_as_they_are(tmp_path: Path) -> None:
    train, test = data.load(write_folders(tmp_path / "one"))
    assert (len(train), len(test), train.shape) == (6, 2, (3, 5, 4))
    assert train.classes == ("cats", "dogs")
    assert set(test.labels.tolist()) == {0, 1}
    assert train.normalisation == Normalisation.of(train.pixels) == test.normalisation

    several = write_folders(tmp_path / "several", ((9, 12), (7, 8)))
    assert data.load(several, size=6).train.shape == (3, 6, 6)
    with pytest.raises(InputError, match=r"8 x 7 .* 12 x 9, .* size"):
        data.load(several)
    for part in ("train", "test"):
        write_folders(tmp_path / "both" / part)
    assert [len(part) for part in data.load(tmp_path / "both")] == [8, 8]


def test_normalisation_is_that_of_the_training_images_and_can_be_undone() -> None:
    train, test = data.digits()
    x = train.inputs(dtype=torch.float64)
    assert x.mean().abs() < 1e-9
    assert (x.std(correction=0) - 1).abs() < 1e-9
    assert (test.normalisation.undo(test.inputs()) - test.shown()).abs().max() < 1e-6
    assert Normalisation.from_text(train.normalisation.to_text()) == train.normalisation
    plain = train.normalised_by(Normalisation.identity(1))
    assert torch.equal(plain.inputs([3]), train.shown([3]))
    assert plain.checksum != train.checksum == data.digits().train.checksum


def test_a_split_is_a_partition_that_the_seed_decides() -> None:
    digits = data.digits()
    counts = [len(part.labels.unique()) for part in digits]
    assert counts == [10, 10]
    assert len(digits.train) + len(digits.test) == 1797
    assert data.digits(seed=1).train.checksum != digits.train.checksum
    whole = ImageData.of(np.arange(10, dtype=np.uint8).repeat(4).reshape(10, 2, 2), [0, 1] * 5)
    parts = whole.split(0.3, seed=2)
    assert sorted(torch.cat([p.pixels[:, 0, 0, 0] for p in parts]).tolist()) == list(range(10))


def damaged(folder: Path, name: str, change: Callable[[bytes], bytes]) -> Callable[[], object]:
    def call() -> object:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(change(content))
        try:
            return data.load(folder)
        finally:
            (folder / name).write_bytes(content)

    return call


def missing(folder: Path, name: str) -> Callable[[], object]:
    def call() -> object:
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        try:
            return data.load(folder)
        finally:
            (folder / name).write_bytes(content)

    return call


def test_missing_cut_and_damaged_files_are_named(tmp_path: Path) -> None:
    homes = {}
    for kind, write in (("idx", write_idx), ("bin", write_binary), ("py", write_python)):
        (tmp_path / kind).mkdir()
        homes[kind] = write(tmp_path / kind)
    (tmp_path / "gz").mkdir()
    homes["gz"] = write_idx(tmp_path / "gz", ".gz")
    cut, flip = lambda b: b[:-5], lambda b: b[:-12] + bytes([b[-12] ^ 1]) + b[-11:]
    calls = {
        ("idx", "t10k-labels-idx1-ubyte"): (missing, cut, lambda b: b"\1" + b[1:]),
        ("idx", "train-images-idx3-ubyte"): (cut, lambda b: b[:6], lambda b: b[:3] + b"\1" + b[4:]),
        ("gz", "train-images-idx3-ubyte.gz"): (cut, flip, lambda b: b"text"),
        ("bin", "test_batch.bin"): (missing, cut, lambda b: b"", lambda b: b"\x0a" + b[1:]),
        ("py", "data_batch_1"): (missing, cut, lambda b: b"text", lambda b: pickle.dumps([1])),
        ("py", "test_batch"): (lambda b: pickle.dumps({"data": [1], "labels": [1]}),),
    }
    for (kind, name), changes in calls.items():
        for change in changes:
            folder = homes[kind]
            call = missing(folder, name) if change is missing else damaged(folder, name, change)
            with pytest.raises(InputError) as refused:
                call()
            assert str(folder / name) in str(refused.value)
            assert "\n" not in str(refused.value)
        data.load(homes[kind])  # whole again


def test_checksums_beside_the_files_are_compared(tmp_path: Path) -> None:
    write_binary(tmp_path)
    test = tmp_path / "test_batch.bin"
    sums = tmp_path / "SHA256SUMS"
    sums.write_text(f"{hashlib.sha256(test.read_bytes()).hexdigest()}  test_batch.bin\n")
    data.load(tmp_path)
    content = test.read_bytes()
    test.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match=r"test_batch\.bin is damaged"):
        data.load(tmp_path)


def test_wrong_calls(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    (tmp_path / "empty").mkdir()
    single = write_folders(tmp_path / "single")
    for path in (single / "cats").iterdir():
        path.unlink()
    broken = write_folders(tmp_path / "broken")
    (broken / "cats" / "1.png").write_bytes(b"no image")
    binary = tmp_path / "binary"
    binary.mkdir()
    write_binary(binary)
    byte = np.zeros((2, 4, 4), np.uint8)
    digits = data.digits().train
    require_refusals({
        "no path": lambda: data.load(3),
        "a file": lambda: data.load(file),
        "nowhere": lambda: data.load(tmp_path / "nowhere"),
        "an empty folder": lambda: data.load(tmp_path / "empty"),
        "idx of an empty folder": lambda: data.idx(tmp_path / "empty"),
        "one class": lambda: data.image_folder(single),
        "a broken image": lambda: data.image_folder(broken),
        "a size of text": lambda: data.image_folder(broken, "large"),
        "a size for CIFAR": lambda: data.load(binary, size=8),
        "no share": lambda: data.digits(1.5),
        "no seed": lambda: data.digits(seed=-1),
        "labels of another count": lambda: ImageData.of(byte, [0]),
        "labels out of range": lambda: ImageData.of(byte, [0, 2], ("a", "b")),
        "a label of 300000 classes": lambda: ImageData.of(byte, [0, 300_000]),
        "a label of a billion": lambda: ImageData.of(byte, [0, 10**9]),
        "a label of 62 bits": lambda: ImageData.of(byte, torch.tensor([0, 2**62])),
        "a label beyond integers": lambda: ImageData.of(byte, [0, 1e300]),
        "an infinite label": lambda: ImageData.of(byte, [0, float("inf")]),
        "labels below 0": lambda: ImageData.of(byte, [0, -1]),
        "labels that are not whole": lambda: ImageData.of(byte, [0, 0.5]),
        "labels of NaN": lambda: ImageData.of(byte, [0, float("nan")]),
        "labels of one class": lambda: ImageData.of(byte, [0, 0]),
        "labels of text": lambda: ImageData.of(byte, ["a", "b"]),
        "no labels": lambda: ImageData.of(byte, []),
        "classes of text": lambda: ImageData.of(byte, [0, 1], "ab"),
        "flat images": lambda: ImageData.of(byte[0], [0, 1]),
        "no images": lambda: ImageData.of(byte[:0], []),
        "images above 1": lambda: ImageData.of(3.0 + byte, [0, 1]),
        "images of NaN": lambda: ImageData.of(np.nan + byte, [0, 1]),
        "whole images": lambda: ImageData.of(torch.zeros(2, 4, 4, dtype=torch.long), [0, 1]),
        "a normalisation of text": lambda: ImageData.of(byte, [0, 1], normalisation="0.5"),
        "a normalisation of three": lambda: digits.normalised_by(Normalisation.identity(3)),
        "deviation 0": lambda: Normalisation((0.5,), (0.0,)),
        "two means": lambda: Normalisation((0.5, 0.5), (1.0,)),
        "means of text": lambda: Normalisation("0.5", (1.0,)),
        "a mean of NaN": lambda: Normalisation((float("nan"),), (1.0,)),
        "applied to others": lambda: Normalisation.identity(3).apply(torch.zeros(2, 1, 4, 4)),
        "no normalisation": lambda: Normalisation.from_text("{}"),
        "inputs of whole numbers": lambda: digits.inputs([0], torch.int64),
        "no class": lambda: digits.of_class(10),
        "a split of single images": lambda: ImageData.of(byte, [0, 1]).split(),
        "unlike parts": lambda: data.Split.of(digits, ImageData.of(byte, [0, 1])),
    }.items())  # fmt: skip


def test_a_subset_may_lack_classes() -> None:
    """Two images of ImageNet may be of its first and of its last class; names allow for any gap."""
    byte = np.zeros((2, 4, 4), np.uint8)
    assert len(ImageData.of(byte, [0, 999]).classes) == 1000
    with pytest.raises(InputError, match=r"between 0 and 999 .* pass their names"):
        ImageData.of(byte, [0, 1000])
    assert len(ImageData.of(byte, [0, 1000], tuple(map(str, range(1001)))).classes) == 1001
    many = np.zeros((1001, 1, 1), np.uint8)
    assert len(ImageData.of(many, np.arange(1001)).classes) == 1001


def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch) -> None:
    def forbidden(self: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", forbidden)  # permissions do not bind an administrator
    with pytest.raises(InputError, match=r"cannot be read \(Permission denied\)"):
        data.load(tmp_path)


def test_the_folder_of_a_class_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch) -> None:
    """It matters to folders of images alone: beside files of MNIST it may stand."""
    iterdir = Path.iterdir

    def forbidden(self: Path) -> Iterator[Path]:
        if self.name == "sealed":
            raise PermissionError(13, "Permission denied")
        return iterdir(self)

    (tmp_path / "sealed").mkdir()
    monkeypatch.setattr(Path, "iterdir", forbidden)
    with pytest.raises(InputError, match=r"sealed cannot be read \(Permission denied\)"):
        data.load(tmp_path)
    assert len(data.load(write_idx(tmp_path)).train) > 0


def test_a_download_without_pooch_says_what_to_install(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(InputError, match=r"kernel-geometry\[download\]"):
        data.MNIST.fetch(tmp_path)
