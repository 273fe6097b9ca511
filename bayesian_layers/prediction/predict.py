"""Prediction with uncertainty."""

import functools
import numbers
from typing import Any

import keras
import numpy as np

from bayesian_layers import seeds
from bayesian_layers.draws import Draws
from bayesian_layers.prediction.batches import Batches
from bayesian_layers.prediction.collected import Collected
from bayesian_layers.prediction.moments import CLASSIFIERS
from bayesian_layers.prediction.prediction import Prediction
from bayesian_layers.prediction.program import (
    Settings,
    num_bytes,
    program_of,
)

# The largest number of draws between two steps of the progress bar.
CHUNK = 16


def predict(
    model: keras.Model,
    x: Any,
    num_samples: int | None = None,
    batch_size: int | None = 32,
    *,
    draws: Draws | None = None,
    seed: int | None = None,
    store_samples: bool = True,
    from_logits: bool | None = None,
    stochastic: type | tuple[type, ...] = (),
    verbose: int | str = "auto",
) -> Any:
    """Predicts with uncertainty: the model is run for many draws of its weights.

    `model.predict` returns the outputs for one draw. This returns what they amount to:
    a `Prediction`, with mean, standard deviation, what of it comes from the weights
    and what from the data, quantiles, class probabilities and log-likelihoods. Each
    draw is one function: the same for all examples and batches, by every estimator; of
    an ensemble such as `bl.layers.DenseBatchEnsemble` draw i is member i, modulo the
    number of members. If
    the model ends with a stochastic output layer, its distribution is used, not a draw
    from it.

    All draws run in one compiled program. What a Sequential or Functional model
    computes before its first random layer is computed once. Batch normalization and
    dropout are in inference mode.

    Args:
        model: A model, built or called before.
        x: What `model.predict` takes: arrays, tensors, a `tf.data.Dataset`, a
            PyTorch `DataLoader`, a generator of batches, ...
        num_samples: The number of draws of the weights. Defaults to 100, or to the
            number of the given `draws`; fewer than these are taken evenly from them.
        batch_size: The number of examples that are run at once, for arrays. Besides
            the results, memory is that of one draw for one batch, and a few small ones
            more.
        draws: Draws of the weights to predict by, from `bl.mcmc(model, ...)` or
            `bl.callbacks.CollectDraws`. Random weights that are not among them are
            drawn from their distributions. Defaults to draws of all random weights.
        seed: Integer: which draws. Models of equal weights and structure have equal
            draws. Defaults to a random one, which `keras.utils.set_random_seed` sets.
        store_samples: If `False`, only moments are kept, and memory does not grow with
            `num_samples`; `samples`, `quantile` and `log_prob` are not there then.
        from_logits: For classifiers with plain outputs: `True` if these are logits,
            `False` if they are probabilities, over classes on the last axis, or of one
            class if that has the size 1.
        stochastic: A class of Keras layers that run as in training, such as
            `keras.layers.Dropout` for Monte Carlo dropout, or a tuple of classes.
        verbose: As in `model.predict`: `0` for no progress bar.

    Returns:
        A `Prediction`; of a model with several outputs as many, in the structure of
        the outputs.

    Example:
    >>> model = keras.Sequential(
    ...     [keras.Input((3,)), bl.layers.DenseFlipout(8), bl.layers.Normal(1)]
    ... )
    >>> prediction = bl.predict(model, np.ones((4, 3)), num_samples=5, verbose=0)
    >>> prediction.mean.shape, prediction.samples.shape
    ((4, 1), (5, 4, 1))
    >>> low, high = prediction.interval(0.9)
    >>> bool(np.all(low < high))
    True
    """
    stochastic = (stochastic,) if isinstance(stochastic, type) else tuple(stochastic)
    if num_samples is None:
        num_samples = 100 if draws is None else draws.num_chains * draws.num_draws
    _check(model, num_samples, batch_size, from_logits, stochastic)
    if seed is None:
        seed = int(np.random.randint(2**31))  # What `set_random_seed` seeds.
    seed, num_samples = int(seed) % 2**64, int(num_samples)
    batches = Batches(x, batch_size)
    if not model.built:
        model(keras.tree.map_structure(lambda a: a[:1], batches.first), training=False)
    settings = Settings(stochastic, from_logits, bool(store_samples))
    targets, given = _given(model, draws, num_samples)
    program = program_of(model, settings, targets)
    outputs = program.spec(batches.first).outputs
    collected = [Collected(type(d)) for d in keras.tree.flatten(outputs)]
    bar = keras.utils.Progbar(
        batches.count, verbose=1 if verbose == "auto" else verbose
    )
    # By the position of a weight in the model: names change when it is made anew.
    weight_seeds = seeds.table([seed, 0], num_samples, program.num_weights)
    # Draw i is member i of an ensemble, in all layers.
    weight_seeds[:, program.numbered_weights] = np.arange(num_samples)[:, None]
    chunk, done = _chunk(num_samples), 0
    for group, sizes in batches.groups(functools.partial(_bytes, program, chunk)):
        count = len(keras.tree.flatten(group)[0])
        other_seeds = [
            seeds.table([seed, 1, done + i], num_samples, program.num_generators)
            for i in range(count)
        ]
        other_seeds = np.stack(other_seeds, axis=1)
        features = program.features(group)
        totals, drawn = program.start(group), 0
        while drawn < num_samples:
            part = slice(drawn, drawn + chunk)
            drawn, totals, stored = program(
                features,
                weight_seeds[part],
                other_seeds[part],
                [values[part] for values in given],
                totals,
                drawn,
            )
            for output, distribution in zip(collected, stored, strict=False):
                output.add_draws(distribution, sizes)
            bar.update(done + len(sizes) * drawn // num_samples)
        for output, total in zip(collected, totals, strict=True):
            means = output.add_totals(total, sizes)
            _check_probabilities(means, output.family, from_logits)
        done += len(sizes)
    bar.update(done, finalize=True)
    sample_seed = int(seeds.table([seed, 2], 1, 1)[0, 0])
    predictions = [
        Prediction(output.moments(num_samples), output.distribution(), sample_seed)
        for output in collected
    ]
    return keras.tree.pack_sequence_as(outputs, predictions)


def _given(model, draws, num_samples):
    """The weights that are given, and so many draws of each, evenly from all."""
    if draws is None:
        return [], []
    count = draws.num_chains * draws.num_draws
    if num_samples > count:
        raise ValueError(
            f"There are {count} draws to predict by. Received: "
            f"num_samples={num_samples}"
        )
    chosen = np.arange(num_samples) * count // num_samples
    targets, values = zip(*draws.of_model(model), strict=True)
    return targets, [array[chosen] for array in values]


def _bytes(program, chunk, batch):
    """What a batch takes in memory while its group is run."""
    spec = program.spec(batch)
    stored = chunk * num_bytes(spec.outputs) if program.settings.store_samples else 0
    return num_bytes((batch, spec.features, spec.moments)) + stored


def _chunk(num_samples):
    """The number of draws that are run at once: the same one each time."""
    return max(n for n in range(1, CHUNK + 1) if num_samples % n == 0)


def _check(model, num_samples, batch_size, from_logits, stochastic):
    if not isinstance(model, keras.Model):
        raise TypeError(f"Expected a `keras.Model`. Received: {model!r}")
    if not (isinstance(num_samples, numbers.Integral) and num_samples > 0):
        raise ValueError(
            "`num_samples` should be a positive integer. "
            f"Received: num_samples={num_samples}"
        )
    if batch_size is not None and not (
        isinstance(batch_size, numbers.Integral) and batch_size > 0
    ):
        raise ValueError(
            "`batch_size` should be a positive integer or `None`. "
            f"Received: batch_size={batch_size}"
        )
    if from_logits not in (None, True, False):
        raise ValueError(
            "`from_logits` should be `None`, `True` or `False`. "
            f"Received: from_logits={from_logits}"
        )
    for cls in stochastic:
        if not (isinstance(cls, type) and issubclass(cls, keras.Layer)):
            raise TypeError(
                "`stochastic` should be a class of layers such as "
                f"`keras.layers.Dropout`, or a tuple of such. Received: {cls!r}"
            )


def _check_probabilities(means, family, from_logits):
    """Raises unless outputs that are said to be probabilities are some."""
    if from_logits is False and issubclass(family, CLASSIFIERS):
        family(probs=means)
