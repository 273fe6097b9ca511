"""From a trained model to a Bayesian one: weights become means of distributions."""

from bayesian_layers import initializers, regularizers
from bayesian_layers.conversion import twin_layers
from bayesian_layers.conversion.choice import Choice
from bayesian_layers.conversion.copying import Copier
from bayesian_layers.random_weights import scale_kl
from bayesian_layers.seeds import split


def to_bayesian(
    model,
    estimator="flipout",
    *,
    prior=None,
    posterior=None,
    posterior_scale="moped",
    delta=0.1,
    include=None,
    exclude=None,
    dataset_size=None,
    seed=None,
):
    """Returns a Bayesian copy of a trained model: its weights are the means.

    Each chosen layer is replaced by its twin with an estimator (`keras.layers.Dense`
    by `bl.layers.DenseFlipout`). Kernels become normal distributions around the trained
    values; biases, normalizations and what is not chosen stay as they are, BatchNorm's
    averages too. At mean weights (`bl.weights(model, "mean")`) the predictions are
    those of the original, which is not changed.

    Sequential and Functional models are converted with models inside of them, shared
    layers, several inputs and outputs; of subclassed models and layers the layers that
    they hold as attributes, in lists or in dictionaries. A converted subclass cannot be
    made from its config: save its weights, and load them into a model that was
    converted in the same way.

    By `posterior_scale="moped"` the standard deviations start as the trained weights
    say: `delta * max(|w|, r / 10)`, with r the root mean square of the kernel, so that
    a weight that happens to be near zero is not taken for certain.

    The copy is not compiled: the loss now has the KL in it, which `dataset_size`
    scales, and fine-tuning wants a learning rate of its own. An L2 penalty on a kernel
    is replaced by the prior.

    Layers that are chosen and have weights, but no twin with this estimator (an
    `Embedding` has none with Flipout), are left as they are, and named in a warning;
    `exclude` them to be rid of it. A list of estimators takes for each layer the first
    that exists.

    Args:
        model: A model or layer, built.
        estimator: `"flipout"`, `"reparameterization"`, `"local_reparameterization"`,
            `"variational_dropout"`; a class such as `bl.layers.Flipout`; or a list of
            these, in order of preference.
        prior: The KL from a prior, as for `kernel_regularizer`; or `"moped"`, a normal
            prior around the trained weights with a standard deviation of 1. Defaults to
            that of the layers, a standard normal one. For other scales see
            `bl.regularizers.AnchoredNormalKLDivergence`.
        posterior: A `bl.initializers.Posterior` or its name, for distributions that are
            not independent normal ones; their means are set to the weights, and all
            else starts as the initializer says. Defaults to that of the estimator.
        posterior_scale: `"moped"`, or a positive number, the standard deviation that
            all distributions start with.
        delta: The standard deviation of `"moped"`, as a part of the weight's magnitude.
        include: The layers to convert: `"last"`, the last one that could be; a regular
            expression that is searched for in their names and paths; a class; a layer;
            a function from a layer to a boolean; or a list of these. Defaults to all.
        exclude: The layers not to convert, in the same way.
        dataset_size: The number of training examples, by which the KL is scaled; see
            `bl.scale_kl`.
        seed: Integer seed of the draws. Defaults to a random one.

    Returns:
        A model.

    Raises:
        ValueError: If no layer can be converted.

    Example:
    >>> net = keras.Sequential(
    ...     [keras.Input((3,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)]
    ... )
    >>> model = bl.to_bayesian(net, dataset_size=100)
    >>> [type(layer).__name__ for layer in model.layers]
    ['DenseFlipout', 'DenseFlipout']
    >>> x = np.ones((2, 3))
    >>> with bl.weights(model, "mean"):
    ...     same = np.allclose(model.predict(x, verbose=0), net.predict(x, verbose=0))
    >>> bool(same)
    True

    Reference: Krishnan, Subedar and Tickoo (2020), Specifying weight priors in Bayesian
    deep neural networks with empirical Bayes (MOPED).
    """
    choice = Choice(model, estimator, include, exclude)
    prior = "anchored_normal_kl_divergence" if _is_moped(prior) else prior
    prior = regularizers.get(prior)
    scales = _scales(posterior, posterior_scale, delta)
    posterior = initializers.get(posterior)
    given = iter(split(seed, len(choice.layers)))

    def replace(layer):
        if layer not in choice:
            return None
        return twin_layers.make_twin(
            layer,
            choice.twin_of(layer),
            prior=prior,
            posterior=posterior,
            scales=scales,
            seed=next(given),
        )

    converted = Copier(replace).copy(model)
    choice.warn(stacklevel=2)
    if dataset_size is not None:
        scale_kl(converted, dataset_size=dataset_size)
    return converted


def _is_moped(prior):
    return isinstance(prior, str) and prior == "moped"


def _scales(posterior, posterior_scale, delta):
    """A function from a trained weight to the standard deviations to start with."""
    if posterior is None:
        if isinstance(posterior_scale, str) and posterior_scale == "moped":
            return twin_layers.moped_scales(delta)
        return twin_layers.constant_scales(posterior_scale)
    if posterior_scale != "moped":
        raise ValueError(
            "A posterior that is given starts with its own scale: leave out "
            f"`posterior_scale`. Received: posterior={posterior!r}, "
            f"posterior_scale={posterior_scale!r}"
        )
    return None
