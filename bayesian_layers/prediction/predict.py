"""Prediction with uncertainty."""

import keras
import numpy as np

from bayesian_layers.distributions import Bernoulli, Categorical, Deterministic
from bayesian_layers.prediction.batches import Batches
from bayesian_layers.prediction.moments import Moments, array
from bayesian_layers.prediction.prediction import Prediction
from bayesian_layers.prediction.program import program_of, seeds_of

# With `store_samples=False` so many draws are in memory at a time.
STREAMED = 16


def predict(
    model,
    x,
    num_samples=100,
    batch_size=32,
    *,
    seed=None,
    store_samples=True,
    from_logits=None,
    stochastic=(),
    verbose="auto",
):
    """Predicts with uncertainty: the model is run for many draws of its weights.

    `model.predict` returns the outputs for one draw. This returns what they amount to:
    a `Prediction`, with mean, standard deviation, what of it comes from the weights
    and what from the data, quantiles, class probabilities and log-likelihoods. Each
    draw is one function: the same for all examples and batches, by every estimator. If
    the model ends with a stochastic output layer, its distribution is used, not a draw
    from it.

    All draws run in one compiled program. What a Sequential or Functional model
    computes before its first random layer is computed once. Batch normalization and
    dropout are in inference mode.

    Args:
        model: A model, built or called before.
        x: What `model.predict` takes: arrays, tensors, a `tf.data.Dataset`, a
            PyTorch `DataLoader`, a generator of batches, ...
        num_samples: The number of draws of the weights.
        batch_size: The number of examples that are run at once, for arrays.
        seed: Integer: which draws. Defaults to random ones.
        store_samples: If `False`, only moments are kept, and memory does not grow with
            `num_samples`; `samples`, `quantile` and `log_prob` are not there then.
        from_logits: For classifiers with plain outputs: `True` if these are logits,
            `False` if they are probabilities, over classes on the last axis, or of one
            class if that has the size 1.
        stochastic: Classes of Keras layers that run as in training, such as
            `(keras.layers.Dropout,)` for Monte Carlo dropout.
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
    _check(model, num_samples, from_logits)
    if seed is None:
        seed = int(np.random.default_rng().integers(2**31))
    seed %= 2**64
    batches = Batches(x, batch_size)
    chunk = num_samples if store_samples else min(num_samples, STREAMED)
    weight_seeds = seeds_of([seed, 0], num_samples)
    bar = keras.utils.Progbar(
        batches.count, verbose=1 if verbose == "auto" else verbose
    )
    program, collected, done = None, [], 0
    for group, sizes in batches.groups():
        if program is None:
            _build(model, group)
            program = program_of(model, tuple(stochastic))
        shape = (num_samples, len(sizes), len(program.seed_states))
        seeds = (weight_seeds, seeds_of([seed, 1, done], *shape))
        collected.append(
            _collect(program, group, sizes, seeds, chunk, store_samples, from_logits)
        )
        done += len(sizes)
        bar.update(done)
    if program is None:
        raise ValueError("Expected data with at least one batch. Received: no data.")
    bar.update(done, finalize=True)
    predictions = [
        _join(parts, template, from_logits, seed)
        for parts, template in zip(
            zip(*collected, strict=True), program.templates, strict=True
        )
    ]
    return keras.tree.pack_sequence_as(program.structure, predictions)


def _collect(program, group, sizes, seeds, chunk, store_samples, from_logits):
    """Runs a group of batches for all seeds, some at a time.

    Returns:
        For each output its `Moments`, and a dictionary of parameters `[samples,
        examples, ...]`, or `None` if they are not stored.
    """
    moments, stored = None, None
    weight_seeds, other_seeds = seeds
    for start in range(0, len(weight_seeds), chunk):
        count = min(chunk, len(weight_seeds) - start)
        # Filled up, so that one compiled program serves all.
        index = np.minimum(np.arange(start, start + chunk), len(weight_seeds) - 1)
        outputs = program(group, weight_seeds[index], other_seeds[index])
        outputs = [
            {name: _rows(array(value)[:count], sizes) for name, value in output.items()}
            for output in outputs
        ]
        if moments is None:
            moments = [Moments() for _ in outputs]
        for total, template, output in zip(
            moments, program.templates, outputs, strict=True
        ):
            total.add(_distribution(template, output, from_logits))
        stored = outputs if store_samples else [None] * len(outputs)
    return list(zip(moments, stored, strict=True))


def _rows(values, sizes):
    """`[samples, count, batch, ...]` as `[samples, examples, ...]`."""
    rows = [values[:, i, :size] for i, size in enumerate(sizes)]
    return np.concatenate(rows, axis=1)


def _distribution(template, parameters, from_logits):
    """The distributions of an output, of all samples and examples."""
    distribution = template._map_named(
        lambda name, _: keras.ops.convert_to_tensor(parameters[name])
    )
    if not isinstance(distribution, Deterministic) or from_logits is None:
        return distribution
    outputs = distribution.mean()
    kind = "logits" if from_logits else "probs"
    family = Bernoulli if outputs.shape[-1] == 1 else Categorical
    return family(**{kind: outputs})


def _join(parts, template, from_logits, seed):
    """The prediction of one output, from those of all groups."""
    moments, stored = zip(*parts, strict=True)
    distribution = None
    if stored[0] is not None:
        parameters = {
            name: np.concatenate([values[name] for values in stored], axis=1)
            for name in stored[0]
        }
        distribution = _distribution(template, parameters, from_logits)
    return Prediction(Moments.joined(moments), distribution, seed)


def _build(model, group):
    """Builds a model that was never called."""
    if not model.built:
        model(keras.tree.map_structure(lambda a: a[0, :1], group), training=False)


def _check(model, num_samples, from_logits):
    if not (isinstance(num_samples, int) and num_samples > 0):
        raise ValueError(
            "`num_samples` should be a positive integer. "
            f"Received: num_samples={num_samples}"
        )
    if from_logits not in (None, True, False):
        raise ValueError(
            "`from_logits` should be `None`, `True` or `False`. "
            f"Received: from_logits={from_logits}"
        )
    if not isinstance(model, keras.Model):
        raise TypeError(f"Expected a `keras.Model`. Received: {model!r}")
