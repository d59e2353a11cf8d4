"""The noiseless argmax: what it says of one function and of several."""

from __future__ import annotations

import numpy as np
import pytest

from atoll.likelihoods import argmax, softmax

LATENT = np.random.default_rng(0).standard_normal((50, 4))


def test_a_label_is_certain_or_impossible():
    codes = argmax.classes_of(LATENT)
    np.testing.assert_array_equal(argmax.log_prob(LATENT, codes), 0.0)
    np.testing.assert_array_equal(argmax.log_prob(LATENT, (codes + 1) % 4), -np.inf)
    np.testing.assert_array_equal(argmax.gradient(LATENT, codes), 0.0)
    every = np.stack([argmax.log_prob(LATENT, np.full(50, k)) for k in range(4)], axis=1)
    np.testing.assert_array_equal(np.exp(every), argmax.class_probabilities(LATENT))


def test_it_is_the_limit_of_a_steep_softmax():
    np.testing.assert_allclose(
        argmax.class_probabilities(LATENT), softmax.class_probabilities(1e6 * LATENT), atol=1e-12
    )


@pytest.mark.parametrize("shape", [(7, 1), (3, 7, 1)])
def test_one_function_is_the_difference_of_two(shape):
    f = np.random.default_rng(1).standard_normal(shape)
    both = np.concatenate([np.zeros_like(f), f], axis=-1)
    np.testing.assert_array_equal(argmax.classes_of(f), argmax.classes_of(both))
    np.testing.assert_array_equal(argmax.class_probabilities(f), argmax.class_probabilities(both))


def test_samples_are_the_classes_that_the_functions_name():
    drawn = argmax.sample(np.random.default_rng(0), LATENT)
    np.testing.assert_array_equal(drawn, LATENT.argmax(axis=1))
