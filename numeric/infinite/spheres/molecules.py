r"""Molecules of QM9 as signals on spheres about their atoms, and kernels that are sums over the atoms.

About atom i each element Z and power p give one channel,
$f_{p,Z}(x) = \sum_{j\neq i,\,Z_j=Z} \frac{Z_iZ_j}{r_{ij}^p}\exp\big(-(x\cdot\hat r_{ij}-1)^2/\beta\big)$, in
which p = 2 and 6 stand for electrostatic and van der Waals forces. (After
Esteves, Slotine and Makadia, Scaling spherical CNNs, 2023.) Coefficients are exact at every band limit, so
that a rotated molecule has rotated signals.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from numeric.infinite.spheres.harmonics import harmonics
from numeric.inputs import (
    ArrayLike,
    InputError,
    as_numbers,
    as_path,
    between,
    positive,
    require_instance,
    require_signals,
    resolve,
    whole,
)
from numeric.kernels import Kernel

__all__ = ["Molecule", "SphericalProblem", "SumOverAtoms", "molecule_signals", "read_qm9"]

ELEMENTS = {"H": 1, "C": 6, "N": 7, "O": 8, "F": 9}  # all of QM9, by their charges
KCAL_PER_MOL = 0.0433641153  # in electron volts


@dataclass(frozen=True, eq=False)
class Molecule:
    """Atoms of one molecule, and what is to be predicted of it.

    Parameters: `charges` (atoms,) of the nuclei, `positions` (atoms, 3) in angstrom, its `name` and `target`.

    >>> Molecule("H2", [1, 1], [[0, 0, 0], [0, 0, 0.74]], -4.5).distances[0, 1].item()
    0.74
    """

    name: str
    charges: ArrayLike
    positions: ArrayLike
    target: float

    def __post_init__(self) -> None:
        charges = as_numbers("charges", self.charges, "(atoms,)").double()
        positions = as_numbers("positions", self.positions, "(atoms, 3)").double()
        if charges.ndim != 1 or positions.shape != (len(charges), 3) or len(charges) < 2:
            raise InputError(
                f"{self.name}: charges must have shape (atoms,) and positions (atoms, 3), with two atoms at "
                f"least, but {tuple(charges.shape)} and {tuple(positions.shape)} were given."
            )
        object.__setattr__(self, "charges", charges)
        object.__setattr__(self, "positions", positions)
        apart = self.distances + torch.eye(len(charges), dtype=torch.float64)
        if not apart.isfinite().all() or not apart.all():
            raise InputError(
                f"{self.name}: positions must be finite, and no two atoms in one place."
            )

    @property
    def distances(self) -> Tensor:
        """Between all atoms, (atoms, atoms)."""
        x = torch.as_tensor(self.positions)
        return (x[:, None] - x).norm(dim=2)


def read_qm9(
    folder: str | Path, count: int | None = None, start: int = 0, target: str = "u0_atom"
) -> list[Molecule]:
    """Molecules of QM9 from a folder with gdb9.sdf and gdb9.sdf.csv, as MoleculeNet publishes them.

    Parameters: `count` molecules, or all, from number `start` on; `target` is a column of the table. Those of
    atomization energies, u0_atom and so on, are turned from kcal/mol into meV; others stay in the table's
    units. Refused are folders without both files, columns that do not exist, and files that do not agree.

    >>> read_qm9("nowhere")
    Traceback (most recent call last):
    analytic.expressions.arguments.InputError: nowhere/gdb9.sdf does not exist: unpack gdb9.tar.gz of
    MoleculeNet there, with gdb9.sdf and gdb9.sdf.csv.
    """
    folder = as_path(folder)
    geometry, table = folder / "gdb9.sdf", folder / "gdb9.sdf.csv"
    for path in (geometry, table):
        if not path.is_file():
            raise InputError(
                f"{path} does not exist: unpack gdb9.tar.gz of MoleculeNet there, with gdb9.sdf and "
                "gdb9.sdf.csv."
            )
    stop = None if count is None else whole("start", start, least=0) + whole("count", count)
    scale = 1000 * KCAL_PER_MOL if target.endswith("_atom") else 1.0
    encoding = {"encoding": "utf-8", "errors": "replace"}
    with geometry.open(**encoding) as atoms, table.open(newline="", **encoding) as rows:
        reader = csv.DictReader(rows)
        columns = reader.fieldnames or []
        if target not in columns[1:]:
            raise InputError(f"target = {target!r} is no column of {table}: {columns[1:]} are.")
        molecules = []
        for block, row in zip_longest(
            islice(_blocks(atoms), start, stop), islice(reader, start, stop)
        ):
            if block is None or row is None:
                raise InputError(
                    f"{geometry} and {table} have different numbers of molecules: take both from one archive."
                )
            molecules.append(_molecule(block, row["mol_id"], row[target], scale, geometry))
    if not molecules or (count is not None and len(molecules) < count):
        raise InputError(
            f"{folder} has {len(molecules)} molecules from number {start} on, but {count or 'some'} were "
            "asked for."
        )
    return molecules


def _blocks(lines: Iterator[str]) -> Iterator[list[str]]:
    """The lines of each molecule of an SDF file."""
    block: list[str] = []
    for line in lines:
        if line.startswith("$$$$"):
            yield block
            block = []
        else:
            block.append(line)


def _molecule(block: list[str], name: str, target: str, scale: float, path: Path) -> Molecule:
    try:
        title, atoms = block[0].strip(), block[4 : 4 + int(block[3][:3])]
        words = [line.split() for line in atoms]
        positions = [[float(number) for number in line[:3]] for line in words]
        charges = [ELEMENTS[line[3]] for line in words]
        value = scale * float(target)
    except (IndexError, KeyError, ValueError) as error:
        raise InputError(
            f"{path}: molecule {name} is no V2000 block of H, C, N, O and F with a number as its target "
            f"({type(error).__name__}: {error})."
        ) from None
    if title != name:
        raise InputError(
            f"{path} has {title} where the table has {name}: take both files from one archive."
        )
    return Molecule(name, charges, positions, value)


@dataclass(frozen=True, eq=False)
class SphericalProblem:
    """Signals on the sphere (n, ..., channels, band_limit^2) and numbers (n,) to predict from them."""

    signals: Tensor
    targets: Tensor


def molecule_signals(
    molecules: Sequence[Molecule],
    band_limit: int = 6,
    powers: Sequence[float] = (2.0, 6.0),
    cutoff: float = math.pi / 4,
    device: str | torch.device = "cpu",
) -> SphericalProblem:
    """Molecules as signals on spheres about their atoms, see the module, below a band limit.

    Parameters: `molecules`, as `read_qm9` gives them; `powers` p of the distances in angstrom; at the angle
    `cutoff` from an atom its peak has fallen to a twentieth. Returned are signals (n, atoms, channels,
    band_limit^2), zero beyond a molecule's last atom, with a channel for each power and element, and
    targets (n,). Refused are other molecules, and cutoffs not between 0 and pi.

    >>> water = Molecule("water", [8, 1, 1], [[0, 0, 0], [0.76, 0.59, 0], [-0.76, 0.59, 0]], -10.1)
    >>> molecule_signals([water], band_limit=4).signals.shape
    torch.Size([1, 3, 10, 16])
    """
    if isinstance(molecules, Molecule) or not molecules:
        raise InputError("molecules must be a list of Molecule, such as read_qm9(folder, 10).")
    for molecule in molecules:
        require_instance("molecules", molecule, Molecule, "those of read_qm9(folder, 10)")
    exponents = [positive("powers", power) for power in powers]
    beta = -((math.cos(between("cutoff", cutoff, 1e-3, math.pi)) - 1) ** 2) / math.log(0.05)
    L = whole("band_limit", band_limit)
    peak = _degrees(beta, L)
    most = max(len(torch.as_tensor(molecule.charges)) for molecule in molecules)
    channels = len(exponents) * len(ELEMENTS)
    signals = torch.zeros(len(molecules), most, channels, L * L, dtype=torch.float64, device="cpu")
    for k, molecule in enumerate(molecules):
        coefficients = _coefficients(molecule, exponents, L) * peak
        signals[k, : len(coefficients)] = coefficients
    targets = torch.tensor([m.target for m in molecules], dtype=torch.float64, device="cpu")
    place = resolve(device)
    return SphericalProblem(signals.to(place), targets.to(place))


def _degrees(beta: float, band_limit: int) -> Tensor:
    """g_l of a peak g(t) = sum of (2l+1) g_l P_l(t) with t = x . r, for each coefficient: (band_limit^2,)."""
    t, weights = np.polynomial.legendre.leggauss(max(200, 2 * band_limit))
    peak = weights / 2 * np.exp(-((t - 1) ** 2) / beta)
    degrees = peak @ np.polynomial.legendre.legvander(t, band_limit - 1)
    return torch.from_numpy(np.repeat(degrees, 2 * np.arange(band_limit) + 1))


def _coefficients(molecule: Molecule, powers: Sequence[float], band_limit: int) -> Tensor:
    """Coefficients (atoms, channels, band_limit^2) of point charges in the directions of the other atoms."""
    Z, x = torch.as_tensor(molecule.charges), torch.as_tensor(molecule.positions)
    same = torch.eye(len(Z), dtype=torch.float64, device="cpu")
    r = molecule.distances + same
    towards = (x - x[:, None]) / r[..., None]  # (i, j, 3)
    towards[..., 2] += same  # an atom is no neighbour of itself: any direction will do
    kinds = torch.tensor(list(ELEMENTS.values()), dtype=torch.float64, device="cpu")
    of_kind = (kinds[:, None] == Z).double()  # (elements, j)
    strength = torch.stack([(1 - same) * torch.outer(Z, Z) / r**power for power in powers])
    Y = harmonics(towards.flatten(0, 1), band_limit).unflatten(0, r.shape)
    return torch.einsum("pij,ej,ijc->ipec", strength, of_kind, Y).flatten(1, 2)


@dataclass(frozen=True, eq=False)
class SumOverAtoms(Kernel):
    r"""$k(M, M') = \sum_{ij} k(f_i, f'_j)$: what a network gives that is summed over the atoms.

    Parameters: a `kernel` on signals (n, ...), as that of a Network is. Called on (n, atoms, ...); an atom
    that is zero everywhere is absent. The sum is over atoms of both molecules, with the same weights.

    >>> from numeric.kernels import FunctionKernel
    >>> pair = SumOverAtoms(FunctionKernel(lambda x, y: 1 + x @ y.T))
    >>> pair([[[1.0], [2.0]], [[3.0], [0.0]]]).tolist()
    [[13.0, 11.0], [11.0, 10.0]]
    """

    kernel: Kernel

    def __post_init__(self) -> None:
        require_instance("kernel", self.kernel, Kernel, "infinite.Network(layers).ntk")

    def __call__(self, x: ArrayLike, y: ArrayLike | None = None) -> Tensor:
        rows, columns = require_signals(x, y)
        atoms, owners = _present(rows)
        if columns is None:
            gram = _sums(_sums(self.kernel(atoms), owners, len(rows)).T, owners, len(rows))
            return (gram + gram.T) / 2
        others, their_owners = _present(columns)
        gram = _sums(self.kernel(atoms, others), owners, len(rows))
        return _sums(gram.T, their_owners, len(columns)).T

    def diagonal(self, x: ArrayLike) -> Tensor:
        return torch.cat([self(one[None]).flatten() for one in require_signals(x)[0]])


def _present(x: Tensor) -> tuple[Tensor, Tensor]:
    """Atoms that are not zero everywhere, and the molecule of each."""
    if x.ndim < 3:
        raise InputError(
            f"molecules must be signals (n, atoms, ...), but shape {tuple(x.shape)} was given."
        )
    there = x.flatten(2).any(2)
    if not there.any(1).all():
        raise InputError("a molecule has no atom: all of its signals are zero.")
    return x[there], there.nonzero()[:, 0]


def _sums(rows: Tensor, owners: Tensor, count: int) -> Tensor:
    """Sums over the rows of each owner."""
    return rows.new_zeros(count, rows.shape[1]).index_add(0, owners, rows)
