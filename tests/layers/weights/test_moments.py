"""The mean and the covariance of every estimator, against the closed form.

The outputs of these layers are linear in the kernel: f = f(mean) + J (kernel - mean).
The rows of J, one for each element of the outputs of each example, are found by
calling the Keras layer with unit kernels. A kernel with independent elements of
variance v then gives outputs of covariance J diag(v) J^T, between all positions of all
examples if they share a draw.

1000 draws are taken. An entry of the sample covariance has a standard error of about
sqrt(2 / 1000) = 4.5% of its variances; it is estimated from the products themselves.
Entries within 6 standard errors pass: for the at most 2000 entries of a test the rate
of false failures is below 1e-5 for normal entries with a fixed seed, and an error of
30% in a variance, or a correlation of 0.2 where there should be none, is seen.
"""

import numpy as np
import pytest

from tests.layers.weights.table import (
    LINEAR,
    ROWS,
    array,
    compiled,
    estimator_of,
    keras_layer,
    make,
    set_stddev,
)

DRAWS = 1000


def jacobian(layer, row, x):
    """Outputs at the mean, and their derivatives by each element of the kernel."""
    reference = keras_layer(layer)
    reference.build((None, *row.input_shape))
    kernel = array(next(iter(layer.random_weights.values())).location)

    def outputs(kernel):
        rest = [np.zeros(w.shape) for w in reference.weights[1:]]
        reference.set_weights([kernel, *rest])
        return array(reference(x)).ravel()

    units = np.eye(kernel.size).reshape(kernel.size, *kernel.shape)
    return outputs(kernel), np.stack([outputs(unit) for unit in units], axis=1)


def expected_covariance(name, derivatives, variances, examples):
    full = derivatives * variances @ derivatives.T
    example = np.repeat(np.arange(examples), len(full) // examples)
    if estimator_of(name) == "Reparameterization":
        return full
    if estimator_of(name) == "Flipout":
        return full * (example[:, None] == example)
    return np.diag(np.diag(full))


@pytest.mark.parametrize("name", LINEAR)
def test_outputs_have_the_mean_and_covariance_of_the_closed_form(name):
    row, layer = ROWS[name], make(name, seed=11)
    model = compiled(layer, row)
    if estimator_of(name) != "VariationalDropout":
        set_stddev(layer, 0.3)
    x = row.inputs(batch=2)
    draws = np.stack([model.predict_on_batch(x).ravel() for _ in range(DRAWS)])
    (weight,) = layer.random_weights.values()
    mean, derivatives = jacobian(layer, row, x)
    variances = array(weight.posterior.variance()).ravel()
    expected = expected_covariance(name, derivatives, variances, examples=2)

    centred = draws - mean
    standard_error = draws.std(axis=0) / np.sqrt(DRAWS) + 1e-6
    assert np.all(np.abs(centred.mean(axis=0)) < 6.0 * standard_error)
    products = centred[:, :, None] * centred[:, None, :]
    standard_error = products.std(axis=0) / np.sqrt(DRAWS) + 1e-6
    difference = products.mean(axis=0) - expected
    assert np.all(np.abs(difference) < 6.0 * standard_error)
    # The power that the docstring claims: errors of 30% would be seen.
    diagonal = np.diag(expected) > 1e-3
    assert np.all(
        6.0 * np.diag(standard_error)[diagonal] < 0.45 * np.diag(expected)[diagonal]
    )
