"""Prediction with uncertainty."""

import functools
import numbers
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from bayesian_layers import seeds
from bayesian_layers.draws import Draws
from bayesian_layers.ensemble import Ensemble
from bayesian_layers.prediction.batches import Batches
from bayesian_layers.prediction.collected import Collected
from bayesian_layers.prediction.moments import CLASSIFIERS
from bayesian_layers.prediction.parts import check_alike, parts_of
from bayesian_layers.prediction.prediction import Prediction
from bayesian_layers.prediction.program import Settings, num_bytes


def predict(
    model: keras.Model | Sequence[keras.Model],
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
    an ensemble, `bl.Ensemble` or layers such as `bl.layers.DenseBatchEnsemble`, draw i
    is member i, modulo the number of members. If the model ends with a stochastic
    output layer, its distribution is used, not a draw from it.

    Several models, in a list, predict together: the draws are those of the first, then
    of the next, in equal numbers. They may differ in all but their outputs, which have
    to be of one structure, shape and family of distributions.

    All draws run in one compiled program. What a Sequential or Functional model
    computes before its first random layer is computed once. Batch normalization and
    dropout are in inference mode.

    Args:
        model: A model, a `bl.Ensemble`, or a list of models.
        x: What `model.predict` takes: arrays, tensors, a `tf.data.Dataset`, a
            PyTorch `DataLoader`, a generator of batches, ...
        num_samples: The number of draws of the weights, in all. Defaults to 100, or to
            the number of the given `draws`; fewer than these are taken evenly from
            them. For an ensemble or a list of models it defaults to one for each; if
            they have random weights, or layers that are `stochastic`, to the multiple
            of their number nearest to 100. Of a list the first models have one more
            draw if they do not divide evenly.
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
    model = list(model) if isinstance(model, (list, tuple)) else model
    _check_model(model, draws)
    _check(num_samples, batch_size, from_logits, stochastic)
    if seed is None:
        seed = int(np.random.randint(2**31))  # What `set_random_seed` seeds.
    seed = int(seed) % 2**64
    batches = Batches(x, batch_size)
    for each in model if isinstance(model, list) else [model]:
        if not each.built:
            example = keras.tree.map_structure(lambda a: a[:1], batches.first)
            each(example, training=False)
    settings = Settings(stochastic, from_logits, bool(store_samples))
    num_samples = None if num_samples is None else int(num_samples)
    parts = parts_of(model, settings, draws, num_samples)
    check_alike(parts, batches.first)
    num_samples = sum(part.count for part in parts)
    outputs = parts[0].program.spec(batches.first).outputs
    collected = [Collected(type(d)) for d in keras.tree.flatten(outputs)]
    bar = keras.utils.Progbar(
        batches.count, verbose=1 if verbose == "auto" else verbose
    )
    done = 0
    for group, sizes in batches.groups(functools.partial(_bytes, parts)):
        numbers_of_batches = range(done, done + len(keras.tree.flatten(group)[0]))
        totals, drawn = parts[0].program.start(group), 0
        for part in parts:
            features = part.program.features(group)
            for arguments in part.draws(seed, numbers_of_batches):
                drawn, totals, stored = part.program(
                    features, *arguments, totals, drawn
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


def _bytes(parts, batch):
    """What a batch takes in memory while its group is run."""
    return max(_bytes_of_part(part, batch) for part in parts)


def _bytes_of_part(part, batch):
    spec = part.program.spec(batch)
    stores = part.program.settings.store_samples
    stored = part.chunk * num_bytes(spec.outputs) if stores else 0
    return num_bytes((batch, spec.features, spec.moments)) + stored


def _check_model(model, draws):
    for each in model if isinstance(model, list) else [model]:
        if not isinstance(each, keras.Model):
            raise TypeError(
                "Expected a `keras.Model`, or a list of such. "
                f"Received: {each!r} in model={model!r}"
            )
    if model == []:
        raise ValueError("Expected at least one model. Received: model=[]")
    if isinstance(model, list) and any(isinstance(each, Ensemble) for each in model):
        raise ValueError(
            "Expected a list of single models, which have equal weights. For members "
            "of an ensemble among them write `[*ensemble.members, other]`. "
            f"Received: model={model!r}"
        )
    if draws is not None and isinstance(model, (list, Ensemble)):
        raise ValueError(
            "`draws` are of the weights of one model. Predict by it alone. "
            f"Received: draws={draws!r} and model={model!r}"
        )


def _check(num_samples, batch_size, from_logits, stochastic):
    if num_samples is not None and not (
        isinstance(num_samples, numbers.Integral) and num_samples > 0
    ):
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
