"""What holds for everything that is given to a layer by name: posteriors and priors."""

import json

import keras
import numpy as np
from keras import ops

import bayesian_layers as bl
from bayesian_layers.registry import snake_case
from tests.differentiation import grad
from tests.layers.weights.table import ROWS, array, compiled, make, make_built

DENSE = "DenseReparameterization"
INPUTS = ROWS[DENSE].inputs(batch=4)


def dense(**kwargs):
    """A dense layer from 3 inputs to 2 units, built."""
    return make_built(DENSE, seed=1, **kwargs)


def dense_model(**kwargs):
    """A model of a dense layer from 3 inputs to 2 units, of the same numbers always."""
    keras.utils.set_random_seed(1)
    return compiled(make(DENSE, seed=1, **kwargs), ROWS[DENSE])


def config(thing):
    """A config that went through JSON, as in a file."""
    return json.loads(json.dumps(keras.saving.serialize_keras_object(thing)))


def assert_found_by_both_names(get, cls):
    for name in (cls.__name__, snake_case(cls.__name__)):
        found = get(name)
        assert type(found) is cls
        assert config(found) == config(cls())


def assert_found_in_every_form(get, thing):
    """By the config that Keras writes, by a config by hand, and as it is."""
    assert get(thing) is thing
    by_hand = {"class_name": type(thing).__name__, "config": thing.get_config()}
    for form in (config(thing), by_hand):
        copy = get(form)
        assert copy is not thing
        assert type(copy) is type(thing)
        assert config(copy) == config(thing)


def gradients(model):
    """Of sum(outputs**2) + sum(losses), by the name of each trainable weight."""
    state = [array(v) for v in model.trainable_variables]
    rest = [ops.convert_to_tensor(v) for v in model.non_trainable_variables]

    def loss(*trainable):
        outputs, _, losses = model.stateless_call(
            list(trainable), rest, INPUTS, return_losses=True
        )
        return ops.sum(ops.square(outputs)) + sum(losses)

    bl.scale_kl(model, dataset_size=1)
    names = [v.name for v in model.trainable_variables]
    return dict(zip(names, grad(loss, *state), strict=True))


def assert_fit_trains_every_number(model):
    """Two steps of gradient descent change every number that is read.

    A step is a multiple of the gradient: where a number stays, none reached it.
    """
    before = [array(weight) for weight in model.trainable_weights]
    bl.scale_kl(model, dataset_size=1)
    model.compile(keras.optimizers.SGD(0.01), "mse")
    model.fit(INPUTS, np.ones((4, 2), "float32"), batch_size=2, verbose=0)
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert np.all(np.isfinite(array(weight))), weight.path
        read = np.ones(old.shape, bool)
        if weight.name.endswith("_tril"):
            # Above the diagonal nothing is read.
            read = np.tril(read)
        np.testing.assert_array_equal(array(weight) != old, read, weight.path)


def assert_saves_and_loads(model, path):
    """Returns the loaded model, which has equal weights and equal configs."""
    for weight in model.trainable_weights:
        # Away from where they start: loading has to bring the numbers back.
        weight.assign(weight + 0.125)
    model.save(path)
    loaded = keras.saving.load_model(path)
    for old, new in zip(model.weights, loaded.weights, strict=True):
        assert old.name == new.name
        np.testing.assert_array_equal(array(old), array(new))
    assert loaded.layers[-1].get_config() == model.layers[-1].get_config()
    return loaded
