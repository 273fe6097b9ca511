"""From a trained model to a Bayesian one: weights become means of distributions."""

from bayesian_layers import initializers, regularizers
from bayesian_layers.conversion import twin_layers
from bayesian_layers.conversion.choice import Choice
from bayesian_layers.conversion.copying import Copier
from bayesian_layers.conversion.laplace import Laplace
from bayesian_layers.random_weights import scale_kl
from bayesian_layers.seeds import split


def to_bayesian(
    model,
    estimator=None,
    *,
    prior=None,
    posterior=None,
    posterior_scale="moped",
    delta=None,
    include=None,
    exclude=None,
    dataset_size=None,
    seed=None,
    data=None,
    likelihood=None,
    layers="last",
    structure=None,
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

    With `posterior="laplace"` nothing is left to train: the posterior of a kernel is
    N(w, (H + precision * I)^-1), with H the generalised Gauss-Newton matrix of the
    log-likelihood of the data, each kernel on its own and given the biases, which stay
    points. For the last layer it is all of H; for others a Kronecker product of a
    matrix over inputs and one over outputs, or its diagonal. The precision of the
    prior is that of the largest marginal likelihood, unless a
    `bl.regularizers.NormalKLDivergence` is given. It is a posterior as any other: it
    can be saved, predicted with, and trained further.

    Args:
        model: A model or layer, built.
        estimator: `"flipout"` (the default), `"reparameterization"`, any other in
            `bl.layers` in snake case; a class such as `bl.layers.Flipout`; or a list of
            these, in order of preference. By Laplace's method it is
            `"reparameterization"`, which every posterior allows.
        prior: The KL from a prior, as for `kernel_regularizer`; or `"moped"`, a normal
            prior around the trained weights with a standard deviation of 1. Defaults to
            that of the layers, a standard normal one. For other scales see
            `bl.regularizers.AnchoredNormalKLDivergence`.
        posterior: A `bl.initializers.Posterior` or its name, for distributions that are
            not independent normal ones; their means are set to the weights, and all
            else starts as the initializer says. Defaults to that of the estimator. Or
            `"laplace"`: the curvature at the trained weights gives the covariances.
        posterior_scale: `"moped"`, or a positive number, the standard deviation that
            all distributions start with.
        delta: The standard deviation of `"moped"`, as a part of the weight's magnitude.
            Defaults to 0.1.
        include: The layers to convert: `"last"`, the last one that could be; a regular
            expression that is searched for in their names and paths; a class; a layer;
            a function from a layer to a boolean; or a list of these. Defaults to all.
        exclude: The layers not to convert, in the same way.
        dataset_size: The number of training examples, by which the KL is scaled; see
            `bl.scale_kl`.
        seed: Integer seed of the draws. Defaults to a random one.
        data: A tuple of inputs and targets, the training data, for `"laplace"`.
        likelihood: For `"laplace"`: `"categorical"` for classes (outputs with a softmax
            or logits), `"bernoulli"` (with a sigmoid, or logits), `"normal"` for real
            numbers with noise that is estimated, or `bl.distributions.Normal(0.0, s)`
            with noise that is known.
        layers: For `"laplace"`: `"last"`, or `"all"` that `include` and `exclude`
            leave.
        structure: For `"laplace"` with `layers="all"`: what is computed of H for the
            layers that are not the last. `"kronecker"`, the default: for Dense layers
            and convolutions without groups the Kronecker product with the partial
            traces of H, and for other layers the diagonal. The covariance is then a
            Kronecker product too (`bl.initializers.TrainableKroneckerNormal`), the one
            of the smallest KL from (H + precision * I)^-1. `"diagonal"`: for all layers
            the diagonal, for kernels with thousands of inputs.

    Returns:
        A model. By Laplace's method it has an attribute `noise_stddev`, the noise of
        the `"normal"` likelihood, which is not part of its outputs.

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
    deep neural networks with empirical Bayes (MOPED). Daxberger et al. (2021), Laplace
    redux. Ritter, Botev and Barber (2018), A scalable Laplace approximation for neural
    networks (Kronecker products).
    """
    if isinstance(posterior, str) and posterior == "laplace":
        _scales(posterior, posterior_scale, delta)
        choice, make, result = _by_laplace(
            model,
            estimator,
            prior,
            include,
            exclude,
            data,
            likelihood,
            layers,
            structure,
        )
    else:
        _check_no_data(data, likelihood, layers, structure)
        choice = Choice(model, estimator or "flipout", include, exclude)
        make = _around_the_weights(choice, prior, posterior, posterior_scale, delta)
        result = {}
    given = iter(split(seed, len(choice.layers)))

    def replace(layer):
        return make(layer, seed=next(given)) if layer in choice else None

    converted = Copier(replace).copy(model)
    vars(converted).update(result)
    choice.warn(stacklevel=2)
    if dataset_size is not None:
        scale_kl(converted, dataset_size=dataset_size)
    return converted


def _around_the_weights(choice, prior, posterior, posterior_scale, delta):
    """A function from a layer to its twin, to be trained further."""
    is_moped = isinstance(prior, str) and prior == "moped"
    arguments = {
        "prior": regularizers.get(
            "anchored_normal_kl_divergence" if is_moped else prior
        ),
        "scales": _scales(posterior, posterior_scale, delta),
        "posterior": initializers.get(posterior),
    }

    def make(layer, seed):
        cls = choice.twin_of(layer)
        return twin_layers.make_twin(layer, cls, seed=seed, **arguments)

    return make


def _scales(posterior, posterior_scale, delta):
    """A function from a trained weight to the standard deviations to start with."""
    is_moped = isinstance(posterior_scale, str) and posterior_scale == "moped"
    if posterior is not None and not is_moped:
        raise ValueError(
            "A posterior that is given starts with its own scale: leave out "
            f"`posterior_scale`. Received: posterior={posterior!r}, "
            f"posterior_scale={posterior_scale!r}"
        )
    if delta is not None and (posterior is not None or not is_moped):
        raise ValueError(
            '`delta` belongs to `posterior_scale="moped"`. Received: '
            f"delta={delta}, posterior={posterior!r}, "
            f"posterior_scale={posterior_scale!r}"
        )
    if posterior is not None:
        return None
    if is_moped:
        return twin_layers.moped_scales(0.1 if delta is None else delta)
    return twin_layers.constant_scales(posterior_scale)


def _by_laplace(
    model, estimator, prior, include, exclude, data, likelihood, layers, structure
):
    """The layers, a function from a layer to its twin, and what else was found."""
    if layers not in ("last", "all"):
        raise ValueError(
            f'`layers` should be "last" or "all". Received: layers={layers!r}'
        )
    if structure not in (None, "kronecker", "diagonal"):
        raise ValueError(
            '`structure` should be "kronecker" or "diagonal". '
            f"Received: structure={structure!r}"
        )
    if layers == "last":
        if structure is not None:
            raise ValueError(
                "The last layer has a full covariance; `structure` goes with "
                f'`layers="all"`. Received: structure={structure!r}'
            )
        if include is not None:
            raise ValueError(
                'With `layers="last"` the last layer is converted; `include` goes with '
                f'`layers="all"`. Received: include={include!r}'
            )
        include = "last"
    # A covariance needs one draw for all of a batch.
    choice = Choice(model, estimator or "reparameterization", include, exclude)
    found = Laplace(
        model,
        choice,
        data,
        likelihood,
        regularizers.get(prior),
        structure or "kronecker",
    )

    def make(layer, seed):
        cls = choice.twin_of(layer)
        twin = twin_layers.make_twin(
            layer, cls, seed=seed, arguments=found.arguments(layer)
        )
        found.set_posteriors(layer, twin)
        return twin

    return choice, make, {"noise_stddev": found.noise_stddev}


def _check_no_data(data, likelihood, layers, structure):
    if layers != "last" or any(x is not None for x in (data, likelihood, structure)):
        raise ValueError(
            "`data`, `likelihood`, `layers` and `structure` belong to "
            f'`posterior="laplace"`. Received: likelihood={likelihood!r}, '
            f"layers={layers!r}, structure={structure!r}, and "
            f"{'no ' if data is None else ''}data"
        )
