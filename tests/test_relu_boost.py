"""Do boosts, steps of descent, residuals and penalties of neurons obey their laws exactly?"""

import random
from collections.abc import Callable

import pytest
import sympy as sp
from mpmath import mp, mpf

from analytic.expressions.arguments import InputError
from analytic.relu_dynamics import (
    CanonicalNeuron,
    Neuron,
    Ray,
    Samples,
    VelocityField,
    affine_cost,
    arc_moments,
    descent_step,
    lorentz_boost,
    penalty,
    project_to_ray,
    residual_rates,
    residuals,
    total_variation,
    weighted_curvature,
)

a, b, c, t, s = sp.symbols("a b c t s", real=True)
g = g1, g2 = sp.symbols("g1 g2", positive=True)
alpha, eta = sp.symbols("alpha eta", positive=True)
ANY = Neuron(a, b, c)


def zero(expr: sp.Expr) -> bool:
    """With hyperbolic functions as exponentials of one unknown, what is left is rational."""
    return sp.cancel(sp.expand(expr.rewrite(sp.exp))) == 0


def test_a_boost_solves_the_flow() -> None:
    """a' = -c g1/alpha, b' = c g2/alpha, c' = -(a g1 - b g2)/alpha, from (a, b, c) on."""
    moved = lorentz_boost(ANY, (3, 4), alpha, t)
    speeds = (-3 * moved.c, 4 * moved.c, -(3 * moved.a - 4 * moved.b))
    for part, speed in zip((moved.a, moved.b, moved.c), speeds, strict=True):
        assert zero(sp.diff(part, t) - speed / alpha)
    assert lorentz_boost(ANY, g, alpha, 0) == ANY


def test_a_boost_keeps_delta_and_boosts_add_up() -> None:
    moved = lorentz_boost(ANY, (3, 4), alpha, t)
    assert zero(moved.delta - ANY.delta)
    once, twice = (
        lorentz_boost(ANY, (3, 4), 2, t + s),
        lorentz_boost(lorentz_boost(ANY, (3, 4), 2, t), (3, 4), 2, s),
    )
    for name in ("a", "b", "c"):
        assert zero(sp.expand((getattr(once, name) - getattr(twice, name)).rewrite(sp.exp)))


def test_no_pull_moves_nothing() -> None:
    assert lorentz_boost(Neuron(1, 2, 3), (0, 0), 1, 5) == Neuron(1, 2, 3)


def test_what_a_step_of_descent_does_to_delta() -> None:
    r"""$-(\eta|g|/\alpha)^2(\delta + w_\perp^2)$; along g it is a boost whose norm shrinks."""
    stepped = descent_step(ANY, g, alpha, eta)
    across = (a * g2 + b * g1) ** 2 / (g1**2 + g2**2)
    factor = (eta / alpha) ** 2 * (g1**2 + g2**2)
    assert sp.simplify(stepped.delta - ANY.delta + factor * (ANY.delta + across)) == 0
    norm_after_step = stepped.delta + (stepped.a * g2 + stepped.b * g1) ** 2 / (g1**2 + g2**2)
    assert sp.simplify(norm_after_step - (1 - factor) * (ANY.delta + across)) == 0


def test_descent_lowers_a_positive_delta() -> None:
    rng = random.Random(1)
    for _ in range(200):
        parts = [rng.randint(-9, 9) for _ in range(5)]
        neuron, pull = Neuron(*parts[:3]), (parts[3], parts[4] or 1)
        if neuron.delta > 0:
            assert descent_step(neuron, pull, 3, "1/7").delta < neuron.delta


@pytest.mark.parametrize("right", [True, False])
def test_on_a_ray_both_sides_agree(right) -> None:
    """The sample of the ray adds nothing along it, and a neuron on the ray stays there."""
    ray, pull = Ray(0, sp.Rational(3, 4), right), (sp.Integer(2), sp.Integer(-5))
    jumped = (pull[0] + 7 * ray.x, pull[1] + 7)
    slid = project_to_ray(ray, pull)
    assert slid == project_to_ray(ray, jumped)
    u, v = ray.direction
    moved = lorentz_boost(Neuron(u, -v, 2), slid, 3, "1/2")
    assert sp.simplify(moved.a * ray.x - moved.b) == 0
    assert zero(moved.delta - Neuron(u, -v, 2).delta)


NEURONS = [
    Neuron(3, 4, 2).canonical(3, 1),  # seen by angles whose sines are rational
    Neuron(-4, 3, -1).canonical(3, 1),
    Neuron(-5, -12, 1).canonical(3, 1),
]
SAMPLES = Samples.of(["-3", "-1/5", "1", "5/2"])
TARGETS = ["1/2", -1, "2/3", 3]


def test_residuals_of_canonical_neurons() -> None:
    values = residuals(SAMPLES, TARGETS, NEURONS)
    direct = [
        sum(n.r * sp.Max(n.d[0] * x + n.d[1], 0) for n in NEURONS) / 3 - sp.Rational(y)
        for x, y in zip(SAMPLES.x, TARGETS, strict=True)
    ]
    assert values == direct
    assert all(value.is_Rational for value in values)


def test_proposition_one_is_the_derivative_along_the_flow() -> None:
    """Exactly: residuals of particles that take a step, differentiated by its length."""
    values = residuals(SAMPLES, TARGETS, NEURONS)
    field, step = VelocityField.of(SAMPLES.x, values), sp.Symbol("step", real=True)
    rates = residual_rates(field, NEURONS)
    assert any(value != 0 for value in rates)
    for j, x in enumerate(SAMPLES.x):
        total = 0
        for one in NEURONS:
            dr, turn = field.velocity(one)
            if j in SAMPLES.pattern(one.d):
                r, theta = one.r + step * dr, one.theta + step * turn
                total += r * (x * sp.cos(theta) + sp.sin(theta)) / 3
        assert sp.simplify(sp.diff(total, step).subs(step, 0) - rates[j]) == 0


def test_moments_count_every_neuron_once() -> None:
    moments = arc_moments(SAMPLES, NEURONS)
    assert len(moments) == 2 * len(SAMPLES.x)
    total = sum(one.trace() for one in moments)
    assert total == sum(one.r**2 + 1 for one in NEURONS) / 3


def test_the_velocity_of_a_neuron_lowers_the_potential() -> None:
    field = VelocityField.of(SAMPLES.x, [1, -2, 3, -1])
    for one in NEURONS:
        dr, turn = field.velocity(one)
        angle, radius = sp.symbols("angle radius", real=True)
        pairs = zip(SAMPLES.x, field.residuals, strict=True)
        seen = [p for k, p in enumerate(pairs) if k in SAMPLES.pattern(one.d)]
        V = radius * sum(rho * (x * sp.cos(angle) + sp.sin(angle)) for x, rho in seen)
        at = {radius: one.r, angle: one.theta}
        assert sp.simplify(sp.diff(V, radius).subs(at) + dr) == 0
        assert sp.simplify(sp.diff(V, angle).subs(at) + turn) == 0


def test_penalty_bounds_variation_bounds_curvature() -> None:
    """Charges that cancel at one angle, then at one knot: each functional forgives one more."""
    third = sp.atan(sp.Rational(3, 4))
    same = [CanonicalNeuron(3, third), CanonicalNeuron(-1, third), CanonicalNeuron(2, -third)]
    assert (penalty(same), total_variation(same), weighted_curvature(same)) == (
        2, sp.Rational(4, 3), sp.Rational(4, 3),
    )  # fmt: skip
    back = [
        CanonicalNeuron(3, third),
        CanonicalNeuron(-1, third - sp.pi),
        CanonicalNeuron(2, -third),
    ]
    assert (penalty(back), total_variation(back)) == (2, 2)
    assert weighted_curvature(back) == sp.Rational(4, 3)


def test_a_constant_has_no_knot() -> None:
    alone = [CanonicalNeuron(5, sp.pi / 2)]
    assert (penalty(alone), weighted_curvature(alone)) == (5, 0)


def test_the_weight_makes_the_curvature_that_of_the_charges() -> None:
    """A neuron r = 17, theta = arctan(8/15) + pi: f'' alone counts |r cos(theta)|."""
    one = CanonicalNeuron(17, sp.atan(sp.Rational(8, 15)) + sp.pi)
    assert weighted_curvature([one]) == total_variation([one]) == 17
    assert abs(one.r * one.d[0]) == 15


def test_the_cost_of_affine_functions() -> None:
    """Continuous and smooth where its two forms meet, and never above its simplest networks."""
    l1, l0 = affine_cost.args
    inner, outer = (piece for piece, _ in affine_cost.expr.args)
    meet = {l1: sp.sqrt(3), l0: 1}
    for part in (lambda e: e, lambda e: sp.diff(e, l0), lambda e: sp.diff(e, l1)):
        assert sp.simplify(part(inner).subs(meet) - part(outer).subs(meet)) == 0
    for slope, level in ((1, 0), (0, 1), (2, 3), (-3, "1/2")):
        cost = affine_cost.evaluate(l1=slope, l0=level)
        level = mpf(sp.Rational(level).p) / sp.Rational(level).q
        assert cost <= min(2 * mp.hypot(slope, level), 2 * abs(slope) + abs(level)) + mpf(10) ** -12


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: residual_rates(VelocityField.of([1], [1]), []), "m = 0"),
        (lambda: residuals(Samples.of([1, 2]), [1], NEURONS), "2 samples and 1 targets"),
        (lambda: residuals(Samples.of([1]), [float("nan")], NEURONS), "y = nan"),
        (lambda: arc_moments(Samples.of([1]), []), "m = 0"),
        (lambda: lorentz_boost(Neuron(1, 1, 1), (1, float("inf")), 1, 1), "g = inf"),
        (lambda: lorentz_boost(Neuron(1, 1, 1), (1, 1), 0, 1), "alpha = 0"),
        (lambda: descent_step(Neuron(1, 1, 1), (1, 1), 1, float("nan")), "eta = nan"),
    ],
)
def test_bad_input_is_told(bad: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        bad()
