"""Grids that `make sweep` runs whole, and `make test` in part."""

import pytest

sweep = pytest.mark.sweep
some_and_all = pytest.mark.parametrize(
    "dense", [pytest.param(False, id="some"), pytest.param(True, id="all", marks=sweep)]
)

# Of the cases of these tests, in their order, `make test` runs one in so many, and `make sweep` the others.
THINNED = {
    "test_activations.py::test_floats_are_right_at_collinear_points": 3,
    "test_activations.py::test_floats_are_right_where_the_inputs_determine_them": 3,
    "test_activations.py::test_scaling_follows_the_chain_rule_and_composes": 3,
    "test_angular_average.py::test_the_elu_pair_is_right_to_twelve_digits": 2,
    "test_bare_origin.py::test_a_slope_that_bends_at_zero_leaves_a_term_in_the_norm_and_a_limit": 3,
    "test_bayes.py::test_networks_agree_with_the_first_order_of_a_dataset": 3,
    "test_convolution_kernels.py::test_a_linear_layer_is_the_sum_over_its_weights": 3,
    "test_deep.py::test_depth_one_is_shallow": 4,
    "test_deep.py::test_floats_follow_thirty_digits": 4,
    "test_deep_floats.py::test_curvature_near_a_degenerate_origin": 3,
    "test_deep_floats.py::test_floats_follow_thirty_digits": 4,
    "test_deep_floats.py::test_without_biases_the_origin_is_a_limit": 3,
    "test_depth_figures.py::test_every_activation_draws_at_the_ends_of_its_sliders": 3,
    "test_expectation.py::test_derivatives_agree_with_differences": 3,
    "test_formula_source.py::test_c_computes_what_numpy_does": 6,
    "test_further_activations.py::test_floats_are_right_at_awkward_pairs": 3,
    "test_geometry_closed_form.py::test_no_digits_are_lost_at_any_condition_number": 4,
    "test_gram_tiles.py::test_gradients_are_differences": 3,
    "test_gram_tiles.py::test_tiles_fit_together": 3,
    "test_infinite.py::test_closed_forms_at_every_angle": 6,
    "test_infinite.py::test_deep_networks": 3,
    "test_infinite.py::test_layers_may_differ": 3,
    "test_infinite.py::test_rectified_powers_are_finite_and_positive_where_points_meet": 4,
    "test_kernel_jet.py::test_random_polynomial_kernels_without_rounding": 3,
    "test_kernel_oracles.py::test_differences_of_the_kernel_agree_with_averages_layer_by_layer": 4,
    "test_kernel_oracles.py::test_the_average_over_weights_is_the_shallow_tangent_metric": 3,
    "test_layer_moments.py::test_every_field_keeps_its_digits": 3,
    "test_layers.py::test_quadratures_agree_with_mpmath": 2,
    "test_mehler.py::test_twenty_digits_agree": 3,
    "test_nngp.py::test_floats_are_right_to_twelve_digits": 3,
    "test_nngp.py::test_the_curvature_is_that_of_the_general_radial_formula": 3,
    "test_nngp.py::test_the_origin_without_bias_is_a_limit_or_no_number": 3,
    "test_ntk.py::test_a_line_is_flat": 3,
    "test_ntk.py::test_floats_are_right_to_twelve_digits": 4,
    "test_ntk.py::test_the_origin_is_curved_as_its_own_formula_says": 3,
    "test_ntk.py::test_without_readout_it_is_the_nngp": 3,
    "test_ntk_figures.py::test_every_activation_draws_at_the_ends_of_its_sliders": 4,
    "test_panels.py::test_every_activation_draws_at_the_ends_of_its_sliders": 4,
    "test_phase_diagram.py::test_quadrature_of_phi_is_critical_on_the_boundary": 3,
    "test_phase_diagram.py::test_the_diagram_agrees_with_single_signals": 5,
    "test_predictor_figures.py::test_every_corner_of_the_sliders_has_finite_numbers_and_no_warning": 4,
    "test_quadrature.py::test_kinks_may_lie_anywhere": 3,
    "test_quadrature.py::test_moments_are_right_to_every_digit": 3,
    "test_quadrature.py::test_pairs_are_right_to_every_digit": 3,
    "test_quadrature.py::test_pairs_of_a_steep_function_stand_any_variance": 3,
    "test_radial.py::test_curvature_is_that_of_the_definition_in_exact_rationals": 3,
    "test_relu_flow.py::test_steps_are_of_order_two": 2,
    "test_relu_sliding.py::test_the_loss_never_increases_and_falls_by_the_way_made": 3,
    "test_relu_sliding_reference.py::test_located_runge_kutta_finds_the_same_changes_and_neurons": 3,
    "test_separation.py::test_a_row_of_zeros_before_a_kink": 3,
    "test_separation.py::test_quadratures_are_as_good_as_closed_forms": 3,
    "test_smooth_activations.py::test_one_point_moments_hold_to_twelve_digits": 3,
    "test_smooth_activations.py::test_pairs_agree_with_one_point_moments_on_a_line": 2,
    "test_smooth_activations.py::test_the_whole_geometry_follows": 2,
    "test_special.py::test_rectified_pairs_match_the_hypergeometric_form": 3,
    "test_spline_weights.py::test_variation_by_adaptive_quadrature": 3,
    "test_splines.py::test_floats_keep_thirteen_digits": 3,
    "test_tails.py::test_floats_are_right_to_a_few_ulps": 3,
    "test_user_defined.py::test_one_point_averages_agree_with_quadrature": 3,
}


def thin(items: list[pytest.Item]) -> None:
    """Mark the other cases of every thinned test."""
    places = dict.fromkeys(THINNED, 0)
    for item in items:
        name = f"{item.path.name}::{getattr(item, 'originalname', item.name)}"
        if name in places:
            if places[name] % THINNED[name]:
                item.add_marker(sweep)
            places[name] += 1
