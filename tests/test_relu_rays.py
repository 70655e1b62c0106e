"""Does each ray do to neurons what corrected lemma 2 says, and do the arcs lie where they should?"""

import random
from collections import Counter
from itertools import pairwise

import pytest
import sympy as sp

from analytic.expressions.arguments import InputError
from analytic.relu_dynamics import CanonicalNeuron, Neuron, Ray, RayKind, Samples, VelocityField

FAR = 1000  # times a ray: beyond (1 + 20 * 20)/1, so that no other ray is crossed on the way
Data = list[tuple[int, int]]  # (x, rho) in the order of x


def drawn(seed: int) -> Data:
    rng = random.Random(seed)
    size = rng.randint(2, 8)
    x = sorted(rng.sample(range(-20, 21), size))
    return [(one, rng.choice((-1, 1)) * rng.randint(1, 30)) for one in x]


def slopes(data: Data, k: int, right: bool) -> tuple[int, int]:
    """How h = sum of rho [ux + v]_+ changes along the tangent, on both sides of a ray of x_k.

    h is piecewise linear and homogeneous, so that integers give its one-sided slopes exactly.
    """
    u, v = (1, -data[k][0]) if right else (-1, data[k][0])

    def h(step: int) -> int:
        p, q = FAR * u - step * v, FAR * v + step * u
        return sum(rho * max(p * x + q, 0) for x, rho in data)

    return h(0) - h(-1), h(1) - h(0)


def expected(before: int, after: int, sign: int) -> RayKind:
    """From the slopes: neurons turn by minus r times them."""
    before, after = -sign * before, -sign * after
    if before > 0 > after:
        return RayKind.ATTRACTOR
    if before < 0 < after:
        return RayKind.REPULSOR
    if before * after > 0:
        return RayKind.CROSSING
    if before == after == 0:
        return RayKind.STILL
    return RayKind.ABSORBING if before > 0 or after < 0 else RayKind.RELEASING


def printed(data: Data, k: int, right: bool) -> bool:
    """One of the two inequalities of (15)."""
    x, rho = data[k]
    beyond = data[k + 1 :] if right else data[:k]
    total = sum(other * rho * (1 + one * x) for one, other in beyond)
    return total > -(rho**2) * (1 + x**2)


def test_lemma_two_on_thousands_of_rays() -> None:
    """Interior rays, then samples with either ray, then rays next to the dead arc."""
    wrong, all_rays, kinds = Counter(), Counter(), Counter()
    for seed in range(1000):
        data = drawn(seed)
        field = VelocityField.of(*zip(*data, strict=True))
        for ray in field.samples.rays:
            sides = slopes(data, ray.index, ray.right)
            assert field.sides(ray) == sides
            ends = ray.index == (len(data) - 1 if ray.right else 0)
            place = "end" if ends else "interior"
            all_rays[place] += 1
            for sign in (1, -1):
                kind = field.kind(ray, sign)
                assert kind is expected(*sides, sign)
                kinds[place, kind] += 1
            opposed = sides[0] * sides[1] < 0
            if not ends:  # (14), whose s_k is that of the arc after the ray, in the order of theta
                rho, size = data[ray.index][1], 1 + data[ray.index][0] ** 2
                within = abs(sides[1]) < abs(rho) * size
                assert (within and sides[1] * rho > 0) == opposed
                wrong["(14)"] += (within and sides[1] * rho < 0) != opposed
            wrong[place] += printed(data, ray.index, ray.right) != opposed
        for k in range(1, len(data) - 1):
            both = [slopes(data, k, right) for right in (True, False)]
            truth = any(one * two < 0 for one, two in both)
            all_rays["sample"] += 1
            wrong["sample"] += any(printed(data, k, right) for right in (True, False)) != truth
    assert all_rays["interior"] > 7000
    assert wrong["interior"] > 0.4 * all_rays["interior"]  # of the printed condition
    assert wrong["(14)"] > 0.2 * all_rays["interior"]
    assert wrong["sample"] > 0.4 * all_rays["sample"]
    assert wrong["end"] == all_rays["end"]  # where the printed one always holds, and never should
    assert kinds["interior", RayKind.ATTRACTOR] == kinds["interior", RayKind.REPULSOR] > 1000
    assert kinds["end", RayKind.ABSORBING] == kinds["end", RayKind.RELEASING] == all_rays["end"]
    assert not {kind for place, kind in kinds if place == "end"} & {
        RayKind.ATTRACTOR,
        RayKind.REPULSOR,
    }


def test_an_attractor_has_the_sign_of_its_residual() -> None:
    field = VelocityField.of([-1, 0, 1], [-3, 2, -1])
    right = next(ray for ray in field.samples.rays if ray.index == 1 and ray.right)
    assert field.sides(right) == (-1, 1)
    assert (field.kind(right, 1), field.kind(right, -1)) == (RayKind.ATTRACTOR, RayKind.REPULSOR)
    turned = VelocityField.of([-1, 0, 1], [3, -2, 1])
    assert (turned.kind(right, 1), turned.kind(right, -1)) == (RayKind.REPULSOR, RayKind.ATTRACTOR)


def test_where_a_side_stands_still() -> None:
    """S = 0 beyond the sample: neither attractor nor crossing; no residuals at all: still."""
    field = VelocityField.of([0, 1, 2], [1, 2, -2])  # on the right ray of 0: 2 - 2
    ray = next(ray for ray in field.samples.rays if ray.index == 0 and ray.right)
    assert field.sides(ray) == (0, 1)
    assert (field.kind(ray, 1), field.kind(ray, -1)) == (RayKind.ABSORBING, RayKind.RELEASING)
    quiet = VelocityField.of([0, 1], [0, 0])
    assert {quiet.kind(ray, 1) for ray in quiet.samples.rays} == {RayKind.STILL}


@pytest.mark.parametrize("seed", range(6))
def test_arcs_lie_where_their_patterns_say(seed) -> None:
    """By numerical signs of <(x, 1), d(theta)> in the middle of each arc, and exactly by directions."""
    data = drawn(seed)
    samples = Samples.of(x for x, _ in data)
    arcs = samples.arcs
    assert len(arcs) == len(samples.rays) == 2 * len(data)
    assert [arc.dead for arc in arcs].count(True) == 1
    for one, two in pairwise(arcs):
        assert one.stop == two.start
        assert one.angles[0] < one.angles[1] == two.angles[0]
    assert sp.simplify(arcs[-1].angles[1] - arcs[0].angles[0] - 2 * sp.pi) == 0
    assert sp.simplify(sum(a.angles[1] - a.angles[0] for a in arcs) - 2 * sp.pi) == 0
    for arc in arcs:
        middle = float(sum(arc.angles)) / 2
        u, v = (
            sp.Rational(str(round(sp.cos(middle), 12))),
            sp.Rational(str(round(sp.sin(middle), 12))),
        )
        assert samples.arc((u, v)) is arc
        assert tuple(arc.pattern) == samples.pattern((u, v))


def test_one_sample_has_two_arcs() -> None:
    samples = Samples.of([2])
    assert [tuple(arc.pattern) for arc in samples.arcs] == [(0,), ()]
    assert samples.arcs[0].angles == (-sp.atan(2), sp.pi - sp.atan(2))


def test_neighbouring_patterns_differ_by_the_sample_of_their_ray() -> None:
    samples = Samples.of([-3, 0, "1/2", 4])
    for one, two in pairwise((*samples.arcs, samples.arcs[0])):
        assert set(one.pattern) ^ set(two.pattern) == {one.stop.index}
        assert (one.stop.index in two.pattern) == one.stop.right  # a right ray: seen from there on


def test_the_printed_angles_are_no_boundaries() -> None:
    for x in (sp.Rational(1, 2), sp.Integer(-3)):
        for turn in (sp.pi / 2, -sp.pi / 2):
            theta = sp.atan(x) + turn
            assert sp.simplify(x * sp.cos(theta) + sp.sin(theta)) != 0
        for ray in Samples.of([x]).rays:
            assert sp.simplify(x * sp.cos(ray.theta) + sp.sin(ray.theta)) == 0
            d, t = (sp.Matrix(way) for way in (ray.direction, ray.tangent))
            size = sp.sqrt(1 + x**2)
            assert sp.simplify(size * sp.cos(ray.theta) - d[0]) == 0
            assert sp.simplify(size * sp.sin(ray.theta) - d[1]) == 0
            assert d.dot(t) == 0


def test_only_the_angular_velocity_jumps() -> None:
    """The velocity of (12) at directions closer and closer to both sides of each ray."""
    data, r = drawn(3), sp.Rational(-7, 5)
    field = VelocityField.of(*zip(*data, strict=True))
    near = sp.Rational(1, 10**12)
    for ray in field.samples.rays:
        sides = [
            field.velocity(CanonicalNeuron(r, sp.Rational(str(sp.N(ray.theta, 40))) + way * near))
            for way in (-1, 1)
        ]
        radial, angular = (sp.N(after - before, 30) for before, after in zip(*sides, strict=True))
        assert abs(radial) < 1e-8
        assert float(angular) == pytest.approx(float(field.jump(ray, r)), abs=1e-8)


def test_a_field_orders_its_pairs() -> None:
    assert VelocityField.of([2, -1, "1/2"], [1, -2, 3]) == VelocityField.of(
        [-1, "1/2", 2], [-2, 3, 1]
    )


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: Samples.of([]), "No samples"),
        (lambda: Samples.of([1, 2, 1]), "given twice"),
        (lambda: Samples.of([0.5, "1/2"]), "given twice"),
        (lambda: Samples.of([float("nan")]), "x = nan"),
        (lambda: Samples.of([float("inf")]), "x = inf"),
        (lambda: VelocityField.of([1, 2], [1]), "2 samples and 1 residuals"),
        (lambda: VelocityField.of([1], [float("nan")]), "rho = nan"),
        (lambda: Samples.of([1]).pattern((0, 0)), "not both 0"),
        (lambda: Samples.of([1]).pattern((sp.Symbol("u"), 1)), "two numbers"),
        (lambda: Samples.of([1, 2]).pattern((1, -2)), "ray of the sample 2"),
        (lambda: VelocityField.of([1], [1]).kind(Ray(0, sp.S.One, True), 0), "sign = 0"),
        (lambda: VelocityField.of([1], [1]).velocity(Neuron(1, 1, 1).canonical(1, 1)), "ray of the sample 1"),
    ],
)  # fmt: skip
def test_bad_input_is_told(bad, message) -> None:
    with pytest.raises(InputError, match=message):
        bad()
