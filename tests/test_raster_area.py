"""Areas and accuracies from a sample, against the worked examples of the literature."""

import numpy as np
import pytest
from scipy.stats import binomtest

from jplay.raster import estimate_areas, plan_sample, wilson_interval

# Olofsson et al. (2014), table 8: rows are map classes, columns reference classes.
CLASSES = ["deforestation", "forest gain", "stable forest", "stable non-forest"]
COUNTS = [[66, 0, 5, 4], [0, 55, 8, 12], [1, 0, 153, 11], [2, 1, 9, 313]]
MAPPED = [200_000, 150_000, 3_200_000, 6_450_000]


def rounded(values, digits):
    return [f"{value:.{digits}f}" for value in np.atleast_1d(values)]


def test_areas_of_the_published_example_to_the_digit():
    found = estimate_areas(COUNTS, MAPPED, classes=CLASSES, pixel_area=0.09)
    assert found.unit == "ha"
    assert rounded(found.area, 0) == ["21158", "11686", "285770", "581386"]
    assert rounded(found.area_half_width, 0) == ["6158", "3756", "15510", "16282"]
    pixels = estimate_areas(COUNTS, MAPPED)
    assert rounded(pixels.area[0], 0) == ["235086"]
    assert rounded(pixels.area_half_width[0], 0) == ["68418"]
    assert pixels.mapped_area.tolist() == MAPPED


def test_accuracies_of_the_published_example_to_the_digit():
    found = estimate_areas(COUNTS, MAPPED)
    assert rounded(found.users_accuracy, 2) == ["0.88", "0.73", "0.93", "0.96"]
    assert rounded(found.users_accuracy_half_width, 2) == ["0.07", "0.10", "0.04", "0.02"]
    assert rounded(found.producers_accuracy, 2) == ["0.75", "0.85", "0.93", "0.96"]
    assert rounded(found.producers_accuracy_half_width, 2) == ["0.21", "0.25", "0.03", "0.02"]
    assert rounded(found.overall_accuracy, 2) == ["0.95"]
    assert rounded(found.overall_accuracy_half_width, 2) == ["0.02"]


def test_example_of_the_earlier_paper():
    """Olofsson et al. (2013), equations 9 to 16."""
    found = estimate_areas([[97, 0, 3], [3, 279, 18], [2, 1, 97]], [22353, 1122543, 610228])
    assert rounded(found.area[0], 0) == ["45112"]
    assert rounded(found.area_half_width[0] / 1.96, 0) == ["10751"]
    assert rounded(found.producers_accuracy, 2) == ["0.48", "0.99", "0.90"]
    assert rounded(found.overall_accuracy, 3) == ["0.944"]


def test_intervals_cover_the_truth_of_simulated_maps():
    """Samples of a map whose errors are known: 95 % of the intervals should hold the truth."""
    rng = np.random.default_rng(0)
    mapped = np.array([4_000, 16_000, 80_000])
    errors = np.array([[0.8, 0.1, 0.1], [0.1, 0.85, 0.05], [0.02, 0.03, 0.95]])
    truth = mapped @ errors
    producers = mapped * np.diag(errors) / truth
    held, held_producers, n_rounds = np.zeros(3), np.zeros(3), 800
    for _ in range(n_rounds):
        counts = np.stack([rng.multinomial(600, row) for row in errors])
        found = estimate_areas(counts, mapped)
        held += np.abs(found.area - truth) <= found.area_half_width
        gap = np.abs(found.producers_accuracy - producers)
        held_producers += gap <= found.producers_accuracy_half_width
    assert (held / n_rounds > 0.92).all()
    assert (held / n_rounds < 0.98).all()
    assert (held_producers / n_rounds > 0.91).all()


def test_strata_without_class_and_classes_without_stratum():
    """Unclassified pixels belong to the area; a class that the map lacks has one, too."""
    found = estimate_areas(
        [[8, 0, 2], [1, 9, 0], [5, 3, 2]],
        [100, 200, 700],
        classes=["a", "b", "c"],
        strata=["a", "b", "unclassified"],
    )
    np.testing.assert_allclose(found.area, [80 + 20 + 350, 180 + 210, 20 + 140])
    assert found.area.sum() == pytest.approx(1000)
    assert found.mapped_area.tolist() == [100, 200, 0]
    assert found.overall_accuracy == pytest.approx(0.08 + 0.18)
    assert np.isnan(found.users_accuracy[2])
    assert found.producers_accuracy[2] == 0
    assert found.to_dict()["users_accuracy"][2] is None


def test_bad_designs_are_refused():
    with pytest.raises(ValueError, match=r"at least two reference pixels .* got 1 in 'b'"):
        estimate_areas([[5, 0], [0, 1]], [10, 10], classes=["a", "b"])
    with pytest.raises(ValueError, match="row per stratum"):
        estimate_areas([[5, 0], [0, 5]], [10, 10, 10])
    with pytest.raises(ValueError, match="at least the number of reference pixels"):
        estimate_areas([[5, 0], [0, 5]], [4, 10])
    with pytest.raises(ValueError, match="`confidence`"):
        estimate_areas([[5, 0], [0, 5]], [10, 10], confidence=95)
    # A class with no pixel on the map needs no reference pixel.
    assert estimate_areas([[5, 0], [0, 0]], [10, 0]).overall_accuracy == 1.0


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_wilson_interval_is_that_of_scipy(confidence):
    for successes, trials in ((0, 5), (3, 7), (66, 75), (40, 40)):
        expected = binomtest(successes, trials).proportion_ci(confidence, method="wilson")
        low, high = wilson_interval(successes, trials, confidence)
        assert low == pytest.approx(expected.low, abs=1e-5)
        assert high == pytest.approx(expected.high, abs=1e-5)
    assert np.isnan(wilson_interval(0, 0)).all()


def test_sample_size_of_the_published_example():
    """Olofsson et al. (2014), section 5.1.1: 641 pixels for a standard error of 0.01."""
    plan = plan_sample(
        MAPPED, half_width=0.0196, users_accuracy=[0.7, 0.6, 0.9, 0.95], minimum=75, classes=CLASSES
    )
    assert plan.n_pixels.sum() == 641
    assert plan.n_pixels[:2].tolist() == [75, 75]
    # The rest in proportion to area: 3.2 to 6.45.
    assert plan.n_pixels[2:].tolist() == [163, 328]


def test_plan_keeps_its_promise():
    """Samples of the planned size give intervals of the planned width."""
    mapped, accuracy = [9_000, 41_000, 50_000], np.array([0.7, 0.8, 0.9])
    plan = plan_sample(mapped, half_width=0.03, users_accuracy=accuracy, minimum=20)
    rng = np.random.default_rng(0)
    widths = []
    for _ in range(200):
        right = rng.binomial(plan.n_pixels, accuracy)
        counts = np.diag(right)
        counts[:, 0] += plan.n_pixels - right
        counts[0] = [right[0], plan.n_pixels[0] - right[0], 0]
        widths.append(estimate_areas(counts, mapped).overall_accuracy_half_width)
    assert np.mean(widths) == pytest.approx(plan.overall_accuracy_half_width, rel=0.05)
    assert plan.overall_accuracy_half_width == pytest.approx(0.03, rel=0.05)


def test_small_classes_and_bad_wishes():
    plan = plan_sample([7, 0, 100_000], half_width=0.05, minimum=30)
    assert plan.n_pixels[:2].tolist() == [7, 0]
    assert plan.n_pixels[2] >= 30
    with pytest.raises(ValueError, match="`half_width`"):
        plan_sample([10, 20], half_width=2)
    with pytest.raises(ValueError, match="`users_accuracy`"):
        plan_sample([10, 20], users_accuracy=1.0)
    with pytest.raises(ValueError, match="`minimum`"):
        plan_sample([10, 20], minimum=1)
    with pytest.raises(ValueError, match="`mapped_pixels`"):
        plan_sample([0, 0])
