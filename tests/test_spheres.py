"""Networks on the sphere: rotations of harmonics, quadrature, kernels by one rotation, finite twins."""

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
import torch
from torch import Tensor

from analytic.activations import erf, monomial, relu
from numeric.estimate import Estimate
from numeric.infinite import (
    NTK,
    AveragePool,
    Convolution,
    Dense,
    Dropout,
    Flatten,
    GroupConvolution,
    GroupPool,
    Lift,
    Network,
    S2Convolution,
    SelfAttention,
    SO3Convolution,
    assert_equivariant,
    assert_invariant,
    gradient_flow,
)
from numeric.infinite.composition.finite import Draw
from numeric.infinite.composition.signal import Scales, Signal
from numeric.infinite.groups import Action, cyclic
from numeric.infinite.spheres import (
    Molecule,
    RotationGrid,
    Rotations,
    SphereGrid,
    SumOverAtoms,
    charges_on_a_sphere,
    harmonics,
    molecule_signals,
    read_qm9,
    wigner,
)
from numeric.inputs import InputError
from numeric.kernels import assert_kernel
from numeric.models.memory import Meter

EPS = torch.finfo(torch.float64).eps
SQUARE = monomial(2)


def signals(n: int, *shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def by_exponentials(alpha: float, beta: float, gamma: float, l: int) -> Tensor:
    """D^l from the generators of angular momentum, in 30 digits, and then for real harmonics."""
    size = 2 * l + 1
    with mp.workdps(30):
        raising = mp.zeros(size)
        for m in range(-l, l):
            raising[m + l + 1, m + l] = mp.sqrt(l * (l + 1) - m * (m + 1))
        about_y = (raising - raising.T) / 2  # i J_y
        about_z = mp.diag([-1j * m for m in range(-l, l + 1)])
        parts = [mp.expm(alpha * about_z), mp.expm(-beta * about_y), mp.expm(gamma * about_z)]
        complex_form = np.array((parts[0] * parts[1] * parts[2]).tolist(), dtype=complex)
    real = np.zeros((size, size), dtype=complex)  # real harmonics in terms of complex ones
    real[l, l] = 1
    for m in range(1, l + 1):
        phase = (-1) ** m
        real[l + m, l + m], real[l + m, l - m] = phase / 2**0.5, 1 / 2**0.5
        real[l - m, l + m], real[l - m, l - m] = -1j * phase / 2**0.5, 1j / 2**0.5
    return torch.from_numpy((real.conj() @ complex_form @ real.T).real)


@pytest.mark.parametrize("l", [1, 2, 5])
def test_wigner_matrices_are_exponentials_of_generators(l: int) -> None:
    alpha, beta, gamma = 0.7, 2.1, -1.3

    def turn(angle: float, i: int, j: int) -> np.ndarray:
        matrix = np.eye(3)
        matrix[i, i] = matrix[j, j] = math.cos(angle)
        matrix[j, i], matrix[i, j] = math.sin(angle), -math.sin(angle)
        return matrix

    rotation = turn(alpha, 0, 1) @ turn(beta, 2, 0) @ turn(gamma, 0, 1)
    exact = by_exponentials(alpha, beta, gamma, l)
    torch.testing.assert_close(wigner(rotation[None], l)[0], exact, rtol=0, atol=8 * l * EPS)


@pytest.mark.parametrize("l", [24, 80])
def test_wigner_matrices_of_high_degree_are_orthogonal_and_compose(l: int) -> None:
    """An angle that is off by an ulp moves orders up to l by l ulps."""
    turns = Rotations.random(3).matrices
    near = torch.eye(3, dtype=torch.float64)  # a gimbal at an angle of 1e-9
    near[0, 2], near[2, 0] = 1e-9, -1e-9
    turns = torch.cat([turns, near[None], turns[:1] @ near])
    D = wigner(turns, l)
    identity = torch.eye(2 * l + 1, dtype=torch.float64)
    assert (D @ D.mT - identity).abs().max() < 2e-14
    products = wigner(turns[:, None].matmul(turns).reshape(-1, 3, 3), l)
    apart = (products.reshape(5, 5, 2 * l + 1, -1) - D[:, None] @ D).abs().max()
    assert apart < 16 * l * EPS


def test_harmonics_turn_with_their_points() -> None:
    """Y(R x) = D(R) Y(x), by recurrences that know nothing of D."""
    L, turns = 25, Rotations.random(2, seed=1)
    points = signals(6, 3)
    points /= points.norm(dim=1, keepdim=True)
    for g in range(turns.order):
        turned = harmonics(points @ turns.matrices[g].T, L)
        D = torch.block_diag(*(wigner(turns.matrices[g : g + 1], l)[0] for l in range(L)))
        torch.testing.assert_close(turned, harmonics(points, L) @ D.T, rtol=0, atol=2e-13)
        # and signals turn so that values move along
        f = signals(1, 1, L * L, seed=2)
        moved = turns.act(g, f) @ turned.T
        torch.testing.assert_close(moved, f @ harmonics(points, L).T, rtol=0, atol=1e-12)


def test_quadrature_is_exact_to_its_degree_and_not_beyond() -> None:
    sphere = SphereGrid(12)
    assert sphere.weights.min() > 0
    gram = (sphere.harmonics * sphere.weights[:, None]).T @ sphere.harmonics
    torch.testing.assert_close(gram, torch.eye(144, dtype=torch.float64), rtol=0, atol=1e-13)
    f = signals(2, 3, 100)
    torch.testing.assert_close(
        sphere.coefficients(sphere.values(f))[..., :100], f, rtol=0, atol=1e-13
    )
    grid = RotationGrid(4)
    D = torch.cat([wigner(grid.rotations.matrices, l).flatten(1) for l in range(6)], 1)
    squares = [1 / (2 * l + 1) for l in range(6) for _ in range((2 * l + 1) ** 2)]
    gram = (D * grid.weights[:, None]).T @ D
    exact = torch.diag(torch.tensor(squares, dtype=torch.float64))
    inside = 4 * (4 * 16 - 1) // 3  # below the band limit
    assert (gram - exact)[:inside, :inside].abs().max() < 1e-14
    assert (gram - exact).abs().max() > 1e-3
    assert grid.weights.min() > 0
    # inverses of nodes are nodes, so that kernels are symmetric
    turns = grid.rotations.matrices
    apart = (turns[:, None] - turns.mT).abs().amax((2, 3))
    assert apart.amin(1).max() < 1e-14


@pytest.mark.parametrize("L", [1, 2, 4])
def test_transforms_are_sums_over_wigner_matrices(L: int) -> None:
    grid = RotationGrid(4)
    D = torch.cat([wigner(grid.rotations.matrices, l).flatten(1) for l in range(L)], 1)
    c = signals(D.shape[1], 2, 3)
    values = grid.values(c)
    torch.testing.assert_close(values, torch.tensordot(D, c, 1), rtol=0, atol=1e-13)
    torch.testing.assert_close(grid.coefficients(values, L), c, rtol=0, atol=1e-13)
    torch.testing.assert_close(grid.mean(values), c[0], rtol=0, atol=1e-14)


@pytest.mark.parametrize("act", [relu, erf], ids=lambda act: act.name)
def test_augmentation_is_equivariance(act: object) -> None:
    """The mean over rotations of kernels of an MLP: at the same nodes exactly, at random ones in the mean."""
    x, y = signals(2, 2, 9), signals(2, 2, 9, seed=1)
    grid, chance = RotationGrid(5), Rotations.random(400)
    lifted = Network([S2Convolution(5), act, SO3Convolution(), act, GroupPool()], 1.4, 0.3)
    # the MLP has 9 inputs a channel, whose sum is the integral
    plain = Network([Flatten(), Dense(sigma_w=1.4 * 3), act, Dense(), act], 1.4, 0.3)
    nodes = grid.rotations
    for kernel in ("nngp", "ntk"):
        ours, theirs = getattr(lifted, kernel), getattr(plain, kernel)

        def turned(turns: Rotations, theirs: object = theirs) -> Tensor:
            moved = turns.orbit(y).flatten(0, 1)
            return theirs(x, moved).reshape(len(x), turns.order, len(y)).movedim(1, 0)

        scale = (ours.diagonal(x)[:, None] * ours.diagonal(y)).sqrt()
        values = ours(x, y)
        assert ((values - grid.mean(turned(nodes))).abs() <= 1e-14 * scale).all()
        assert Estimate.of(turned(chance)).sigmas_from(values).max() < 4


def test_the_oracle_of_a_linear_signal_is_reached() -> None:
    r"""sqrt(3) z under S2 convolution, ReLU, SO(3) convolution and pool: NNGP 3/16 and NTK 1/4.

    Both are integrals of the MLP's kernels over c = cos(beta), whose ends are singular as the powers 3/2 and
    1/2: errors are series in odd powers of 1/B, from the fifth and the third, which extrapolation takes out.
    """
    f = torch.zeros(1, 1, 4, dtype=torch.float64)
    f[0, 0, 2] = 1
    with mp.workdps(30):

        def slope(c: mp.mpf) -> mp.mpf:
            return (mp.pi - mp.acos(c)) / (2 * mp.pi)

        def kappa(c: mp.mpf) -> mp.mpf:
            return mp.sqrt(1 - c * c) / (2 * mp.pi) + c * slope(c)

        nngp = mp.quad(kappa, [-1, 1]) / 2
        ntk = nngp + mp.quad(lambda c: c * slope(c), [-1, 1]) / 2
        assert max(abs(nngp - mp.mpf(3) / 16), abs(ntk - mp.mpf(1) / 4)) < mp.mpf(10) ** -28
    limits = [2, 4, 8, 16, 32]
    nets = [
        Network([S2Convolution(B), relu, SO3Convolution(), GroupPool()], 1.0, 0.0) for B in limits
    ]
    for kernel, exact, power in (("nngp", 3 / 16, 5), ("ntk", 1 / 4, 3)):
        found = torch.tensor([getattr(net, kernel)(f).item() for net in nets], dtype=torch.float64)
        rates = ((found[1:-1] - exact) / (found[2:] - exact)).log2()
        assert ((rates - power).abs() < 0.1).all(), rates
        for k in range(power, power + 8, 2):
            found = (2**k * found[1:] - found[:-1]) / (2**k - 1)
        assert (found - exact).abs().max() < 1e-12  # the terms from power + 8 on


def square(k: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
    """z^2 / sqrt(3) on (n, p, m, p) of a signal with itself, as two Gaussian variables give it."""
    n, p = k.shape[:2]
    own = k.reshape(n * p, n * p).diagonal().reshape(n, p)
    return (own[:, :, None, None] * own + 2 * k * k) / 3, 4 * k / 3 * theta


def rectified(k: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
    """The arc-cosine kernel as a textbook prints it."""
    n, p = k.shape[:2]
    own = k.reshape(n * p, n * p).diagonal().reshape(n, p)
    scale = torch.sqrt(own[:, :, None, None] * own)
    angle = torch.acos((k / scale).clamp(-1, 1))
    kernel = scale / (2 * math.pi) * (angle.sin() + (math.pi - angle) * angle.cos())
    return kernel, (math.pi - angle) / (2 * math.pi) * theta


def lifted(x: Tensor, B: int) -> Tensor:
    """Inner products of the rotated signals, for all pairs of nodes, over the number of channels."""
    D, L = wigners(B), math.isqrt(x.shape[2])
    parts = [torch.einsum("nca,xab->nxcb", x[..., l * l : (l + 1) ** 2], D[l]) for l in range(L)]
    turned = torch.cat(parts, 3).flatten(2)
    return torch.einsum("nxf,myf->nxmy", turned, turned) / x.shape[1]


def convolved(k: Tensor, B: int, limit: int) -> Tensor:
    """Sums over a filter between rotations of k at all pairs of nodes."""
    grid, D, total = RotationGrid(B), wigners(B), torch.zeros_like(k)
    for l in range(limit):
        A = (2 * l + 1) ** 0.5 * D[l] * grid.weights[:, None, None]
        inner = torch.einsum("nxmy,xab,ycb->nmac", k, A, A)
        total += torch.einsum("nmac,xad,ycd->nxmy", inner, D[l], D[l])
    return total


def wigners(B: int) -> list[Tensor]:
    return [wigner(RotationGrid(B).rotations.matrices, l) for l in range(B)]


def whole_tensor(
    x: Tensor, B: int, act: object, limit: int, w: float, b: float
) -> tuple[Tensor, Tensor]:
    """NNGP and NTK of two convolutions with activations and a pool, on all pairs of rotations of a grid."""
    k = w * w * lifted(x, B) + b * b
    k, theta = act(k, k)
    k, theta = (w * w * convolved(part, B, limit) for part in (k, theta))
    k, theta = act(k + b * b, k + b * b + theta)
    weights = RotationGrid(B).weights
    return tuple(torch.einsum("nxmy,x,y->nm", t, weights, weights) for t in (k, theta))


@pytest.mark.parametrize("limit", [None, 2], ids=["no limit", "limit 2"])
def test_one_rotation_stands_for_the_whole_tensor(limit: int | None) -> None:
    """Of two rotations, which the finite network's mean has: the same where the grid is exact.

    Squares of signals of degree 1 have degree 2, and of those 4, to which the grid of band limit 3 is exact.
    ReLU has all degrees, of which the grid folds fewer as it grows.
    """
    x = signals(2, 2, 4)

    def difference(B: int, act: object, textbook: object) -> float:
        layers = [S2Convolution(B), act, SO3Convolution(limit), act, GroupPool()]
        net, exact = Network(layers, 1.4, 0.3), whole_tensor(x, B, textbook, limit or B, 1.4, 0.3)
        return max(
            (ours(x) / whole - 1).abs().max().item()
            for ours, whole in zip((net.nngp, net.ntk), exact, strict=True)
        )

    assert difference(3, SQUARE, square) < 64 * EPS
    assert difference(2, SQUARE, square) > 1e-3
    coarse, fine = (difference(B, relu, rectified) for B in (2, 4))
    assert fine < 2e-3
    assert fine < coarse / 4


def test_finite_layers_are_linear_maps_with_these_kernels() -> None:
    """Products of derivatives by the weights of one output, at all pairs of nodes, are the whole tensor.

    The first layer takes coefficients to nodes, the second nodes to nodes; a linear layer's tangent kernel is
    exact at any width.
    """
    x, w, b = signals(2, 2, 4), 1.4, 0.3
    lift, between = S2Convolution(3), SO3Convolution(2)
    signal = Signal((4,), 2)
    draw = Draw(2, Scales(w, b, NTK()), torch.Generator().manual_seed(0), torch.float64)

    def products(module: torch.nn.Module, h: Tensor) -> Tensor:
        def outputs(parameters: dict[str, Tensor]) -> Tensor:
            return torch.func.functional_call(module, parameters, (h,))[:, 0]

        parts = torch.func.jacrev(outputs)(dict(module.named_parameters())).values()
        rows = torch.cat([part.flatten(2) for part in parts], 2)  # (n, nodes, weights)
        return torch.einsum("nxw,myw->nxmy", rows, rows)

    k = w * w * lifted(x, 3) + b * b
    found = products(lift.finite(signal, 2, 1, draw), x)
    torch.testing.assert_close(found, k, rtol=0, atol=64 * EPS * k.abs().max().item())
    h = signals(2, 3, RotationGrid(3).order, seed=1)  # channels at the nodes
    k = w * w * convolved(torch.einsum("ncx,mcy->nxmy", h, h) / 3, 3, 2) + b * b
    found = products(between.finite(lift.after(signal), 3, 1, draw), h)
    torch.testing.assert_close(found, k, rtol=0, atol=256 * EPS * k.abs().max().item())


EXACT = [S2Convolution(5), SQUARE, SO3Convolution(), SQUARE, GroupPool(), Dense()]
SMOOTH = [S2Convolution(12), erf, SO3Convolution(), erf, GroupPool(), Dense(), relu, Dense()]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_pooled_kernels_are_invariant_under_rotations(dtype: torch.dtype) -> None:
    """Exactly for squares of signals of degree 2, of degree 8 at the end; not where the grid is coarse."""
    x, turns = signals(3, 2, 9, dtype=dtype), Rotations.random(6)
    for kernel in (Network(EXACT, 1.4, 0.3).nngp, Network(EXACT, 1.4, 0.3).ntk):
        assert_invariant(kernel, turns, x)
        assert_equivariant(kernel, turns, x)
    with pytest.raises(AssertionError, match=r"k\(x, g y\)"):
        assert_invariant(Network([S2Convolution(4), *EXACT[1:]], 1.4, 0.3).ntk, turns, x)
    flat = Network([Flatten(), Dense(), relu, Dense()]).ntk
    assert_equivariant(flat, turns, x)
    with pytest.raises(AssertionError, match=r"k\(x, g y\)"):
        assert_invariant(flat, turns, x)


def test_smooth_activations_become_invariant_geometrically() -> None:
    x = signals(2, 2, 4)
    turned, off = Rotations.random(1).act(0, x), []
    for B in (4, 8, 12, 16):
        net = Network([S2Convolution(B), *SMOOTH[1:]], 1.4, 0.3)
        off.append((net.ntk(x, x) - net.ntk(x, turned)).abs().max().item())
    assert all(fine < coarse / 8 for coarse, fine in pairwise(off)), off


@dataclass(frozen=True)
class Shifted:
    """Rotations of signals on the nodes of a grid, N(Q^-1 R), exact below its band limit."""

    turns: Rotations
    grid: RotationGrid
    limit: int

    @property
    def order(self) -> int:
        return self.turns.order

    def act(self, g: int, x: Tensor) -> Tensor:
        c = self.grid.coefficients(x.movedim(2, 0), self.limit)
        sizes = [(2 * l + 1) ** 2 for l in range(self.limit)]
        moved = [
            torch.einsum(
                "ab,bcno->acno",
                wigner(self.turns.matrices[g : g + 1], l)[0],
                part.unflatten(0, (2 * l + 1, -1)),
            )
            for l, part in enumerate(c.split(sizes))
        ]
        return self.grid.values(torch.cat([part.flatten(0, 1) for part in moved])).movedim(0, 2)


def test_finite_networks_are_equivariant() -> None:
    x, turns = signals(2, 2, 9), Rotations.random(6)
    net = Network(EXACT, 1.4, 0.3).finite(4, shape=(2, 9))
    assert_equivariant(net, turns, x)
    assert_equivariant(net[:3], turns, x, outputs=Shifted(turns, RotationGrid(5), 5))
    plain = Network([Flatten(), Dense(), erf, Dense()]).finite(4, shape=(2, 9))
    with pytest.raises(AssertionError, match="f\\(g x\\)"):
        assert_equivariant(plain, turns, x)


def test_grams_of_exact_grids_are_positive_and_equal_in_tiles() -> None:
    x, y = signals(14, 1, 4), signals(6, 1, 4, seed=1)
    layers = [S2Convolution(4), SQUARE, SO3Convolution(3), SQUARE, GroupPool(), Dense()]
    for memory in (2**30, 2**17):
        net = Network(layers, 1.4, 0.3, memory=memory)
        assert_kernel(net.ntk, x, y)


def test_memory_is_within_the_budget() -> None:
    """One pair on two rotations, instead of one, would take 2^25 bytes."""
    x, budget = signals(20, 2, 25), 2**22
    net = Network(
        [S2Convolution(8), relu, SO3Convolution(4), erf, GroupPool(), Dense()], memory=budget
    )
    net.ntk(x[:2])  # tables, which are kept
    with Meter() as meter:
        net.ntk(x)
    assert meter.peak < 2 * budget
    with pytest.raises(InputError, match="one pair of signals needs 114688"):
        Network(net.layers, memory=10**5).ntk(x)


SDF = """{name}
  made by hand

{count:3d}  0  0  0  0  0  0  0  0  0999 V2000
{atoms}
M  END
$$$$
"""
NAMES = (
    "mol_id,A,B,C,mu,alpha,homo,lumo,gap,r2,zpve,u0,u298,h298,g298,cv,"
    "u0_atom,u298_atom,h298_atom,g298_atom"
)
MOLECULES = {
    "gdb_3": ("O 0 0 0.1178", "H 0 0.7555 -0.4712", "H 0 -0.7555 -0.4712"),
    "gdb_4": ("C 0 0 0.6", "C 0 0 -0.6", "H 0 0 1.66", "H 0 0 -1.66"),
}


def write_qm9(folder: Path, names: tuple[str, ...] = tuple(MOLECULES)) -> Path:
    """Two molecules in the formats of gdb9.sdf and gdb9.sdf.csv."""
    text, rows = "", [NAMES]
    for k, (name, atoms) in enumerate(MOLECULES.items()):
        lines = []
        for atom in atoms:
            element, *place = atom.split()
            x, y, z = map(float, place)
            lines.append(
                f"{x:10.4f}{y:10.4f}{z:10.4f} {element}   0  0  0  0  0  0  0  0  0  0  0  0"
            )
        text += SDF.format(name=name, count=len(atoms), atoms="\n".join(lines))
        rows.append(",".join([names[k], *["1.0"] * 15, f"-{k + 1}00.0", *["-3.0"] * 3]))
    (folder / "gdb9.sdf").write_text(text)
    (folder / "gdb9.sdf.csv").write_text("\n".join(rows) + "\n")
    return folder


def test_molecules_are_read_and_turned_into_signals(tmp_path: Path) -> None:
    water, acetylene = read_qm9(write_qm9(tmp_path))
    assert water.name == "gdb_3"
    assert water.charges.tolist() == [8, 1, 1]
    assert water.positions[1].tolist() == [0, 0.7555, -0.4712]
    assert acetylene.target == pytest.approx(-200 * 43.3641, rel=1e-6)  # meV for kcal/mol
    assert [m.name for m in read_qm9(tmp_path, 1, start=1, target="gap")] == ["gdb_4"]
    problem = molecule_signals([water, acetylene], band_limit=40)
    assert problem.signals.shape == (2, 4, 10, 1600)
    assert not problem.signals[0, 3].any()
    assert problem.targets.tolist() == [water.target, acetylene.target]
    # about the oxygen, at any point: two hydrogens, of powers 2 and 6, and nothing else
    points = signals(5, 3)
    points /= points.norm(dim=1, keepdim=True)
    values = problem.signals[0, 0] @ harmonics(points, 40).T
    beta = -((math.cos(math.pi / 4) - 1) ** 2) / math.log(0.05)
    exact = torch.zeros(10, 5, dtype=torch.float64)
    for j in (1, 2):
        apart = water.positions[j] - water.positions[0]
        r = apart.norm()
        peak = torch.exp(-((points @ apart / r - 1) ** 2) / beta)
        exact[0] += 8 / r**2 * peak
        exact[5] += 8 / r**6 * peak
    torch.testing.assert_close(values, exact, rtol=0, atol=1e-6)


def test_rotated_molecules_have_rotated_signals_and_the_same_kernel() -> None:
    turns = Rotations.random(1)
    charges, places = [6, 1, 7, 8, 9], signals(5, 3)
    one = Molecule("here", charges, places, 0.0)
    other = Molecule("there", charges, places @ turns.matrices[0].T, 0.0)
    x, y = (molecule_signals([molecule], 3).signals for molecule in (one, other))
    torch.testing.assert_close(turns.act(0, x[0]), y[0], rtol=0, atol=1e-13 * x.abs().max().item())
    layers = [S2Convolution(3), SQUARE, SO3Convolution(), GroupPool(), Dense()]
    kernel = SumOverAtoms(Network(layers, 1.0, 0.1).ntk)
    # more molecules, of fewer atoms
    more = torch.cat([x, 2 * x])
    more[1, 3:] = 0
    assert_kernel(kernel, more, y)
    torch.testing.assert_close(kernel(more, x), kernel(more, y), rtol=1e-12, atol=0)
    atoms = kernel.kernel(more[1, :3], x[0]).sum()
    torch.testing.assert_close(kernel(more[1:], x)[0, 0], atoms, rtol=1e-12, atol=0)


def test_energies_of_charges_are_learned_by_invariance() -> None:
    """From 40 examples in any rotation the invariant kernel predicts, that of an MLP hardly."""
    seen, unseen = charges_on_a_sphere(40), charges_on_a_sphere(60, seed=1)
    assert Estimate.of(charges_on_a_sphere(400).signals.square().sum((1, 2))).sigmas_from(1.0) < 4
    mean, errors = seen.targets.mean(), []
    for layers in (
        [S2Convolution(8), erf, SO3Convolution(), erf, GroupPool(), Dense()],
        [Flatten(), Dense(), erf, Dense(), erf, Dense()],
    ):
        net = Network(layers, 1.4, 0.1)
        found = gradient_flow(net, seen.signals, (seen.targets - mean)[:, None], unseen.signals)
        errors.append((found.mean[:, 0] + mean - unseen.targets).abs().mean().item())
    assert errors[0] < errors[1] / 2


X = signals(2, 3, 9)


def on(*layers: object, x: Tensor = X, **more: object) -> Tensor:
    return Network(list(layers), **more).nngp(x)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: on(S2Convolution(2), GroupPool()), "Layer 0, S2Convolution: band_limit = 2 is below .* 3"),
        (lambda: on(S2Convolution(4), GroupPool(), x=X[..., :7]), "Layer 0, S2.*7 coefficients.*1, 4, 9"),
        (lambda: on(S2Convolution(4), GroupPool(), x=X[..., None]), r"Layer 0, S2.*positions \(9, 1\)"),
        (lambda: on(S2Convolution(4), S2Convolution(4), GroupPool()), "Layer 1, S2.*lifted"),
        (lambda: on(Lift(Action(cyclic(9))), S2Convolution(4), GroupPool()), "Layer 1, S2.*lifted"),
        (lambda: on(SO3Convolution(), GroupPool()), "Layer 0, SO3Convolution: .*S2Convolution before"),
        (lambda: on(S2Convolution(3), SO3Convolution(4), GroupPool()), "Layer 1, SO3.*that of the grid, 3"),
        (lambda: on(S2Convolution(3), GroupConvolution(), GroupPool()), "Layer 1, GroupConv.*SO3Convolution"),
        (lambda: on(S2Convolution(3), Convolution(3), GroupPool()), "Layer 1, Convolution: .*lifted"),
        (lambda: on(S2Convolution(3), relu, Dense()), "Layer 2, Dense: .*RotationGrid.*GlobalPool"),
        (lambda: on(S2Convolution(3), Dropout(0.1), GroupPool()), "Layer 1, Dropout: .*after GroupPool"),
        (lambda: on(S2Convolution(3), SelfAttention(), GroupPool()), "Layer 1, SelfAttention"),
        (lambda: on(S2Convolution(3), AveragePool(), GroupPool()), "Layer 1, AveragePool"),
        (lambda: on(S2Convolution(3)), r"positions RotationGrid\(band_limit=3\): end with"),
        (lambda: S2Convolution(0), "band_limit"),
        (lambda: S2Convolution(3, sigma_w=-1.0), "sigma_w"),
        (lambda: SO3Convolution(2.5), "band_limit"),
        (lambda: RotationGrid("4"), "band_limit"),
        (lambda: RotationGrid(2).values(torch.ones(7)), "7 coefficients .*1, 10, 35"),
        (lambda: RotationGrid(2).values(torch.ones(35)), "below that of the signals, 3"),
        (lambda: RotationGrid(2).coefficients(torch.ones(7, 2)), r"\(32, ...\)"),
        (lambda: SphereGrid(-1), "band_limit"),
        (lambda: SphereGrid(2).values([1.0, 2.0]), "2 coefficients"),
        (lambda: SphereGrid(2).values([1.0] * 9), "below that of the signals, 3"),
        (lambda: SphereGrid(2).coefficients([1.0]), "each node"),
        (lambda: harmonics([[0.0, 0.0, 2.0]], 2), "unit vectors"),
        (lambda: harmonics([0.0, 0.0, 1.0], 2), r"\(k, 3\)"),
        (lambda: wigner(torch.eye(3)[None], -1), "degree"),
        (lambda: wigner(-torch.eye(3)[None], 1), "mirror image"),
        (lambda: Rotations(2 * torch.eye(3)[None]), "orthogonal"),
        (lambda: Rotations(torch.eye(3)), r"\(k, 3, 3\)"),
        (lambda: Rotations.random(0), "count"),
        (lambda: Rotations.random(2).act(2, torch.ones(2, 1, 9)), "g = 2 .* 0 to 1"),
        (lambda: Rotations.random(2).act(0, torch.ones(2, 9)), "band_limit"),
        (lambda: Molecule("H", [1], [[0, 0, 0]], 1.0), "two atoms"),
        (lambda: Molecule("H2", [1, 1], [[0, 0, 0], [0, 0, 0]], 1.0), "no two atoms"),
        (lambda: molecule_signals([]), "list of Molecule"),
        (lambda: molecule_signals(["H2"]), "Molecule"),
        (lambda: SumOverAtoms("k"), "Kernel"),
        (lambda: SumOverAtoms(Network([Dense()]).nngp)([[1.0, 2.0]]), r"\(n, atoms, ...\)"),
        (lambda: SumOverAtoms(Network([Dense()]).nngp)([[[0.0, 0.0]]]), "no atom"),
        (lambda: charges_on_a_sphere(4, charges=1), "charges = 1"),
        (lambda: read_qm9("nowhere"), "gdb9.sdf does not exist"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_sphere_is_refused(make: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_files_of_qm9_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    write_qm9(tmp_path)
    with pytest.raises(InputError, match="target = 'energy' is no column"):
        read_qm9(tmp_path, target="energy")
    with pytest.raises(InputError, match="has 2 molecules from number 0 on, but 3"):
        read_qm9(tmp_path, 3)
    with (tmp_path / "gdb9.sdf.csv").open("a") as table:
        table.write("gdb_6" + ",1.0" * 19 + "\n")
    with pytest.raises(InputError, match="different numbers"):
        read_qm9(tmp_path)
    write_qm9(tmp_path, ("gdb_3", "gdb_5"))
    with pytest.raises(InputError, match="has gdb_4 where the table has gdb_5"):
        read_qm9(tmp_path)
    geometry = tmp_path / "gdb9.sdf"
    geometry.write_text(geometry.read_text().replace(" O ", " S "))
    with pytest.raises(InputError, match=r"gdb_3 is no V2000 block .*'S'"):
        read_qm9(tmp_path)
