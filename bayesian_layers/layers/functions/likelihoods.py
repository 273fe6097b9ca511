"""What is observed of a function: likelihoods of its values."""

import numbers

from keras import ops

from bayesian_layers import distributions, parameterizations
from bayesian_layers.distributions import Compound, shapes
from bayesian_layers.distributions.compound import with_parameter
from bayesian_layers.distributions.expectation import gauss_hermite
from bayesian_layers.distributions.noise import normal
from bayesian_layers.distributions.over_nodes import OverNodes
from bayesian_layers.distributions.transforms import Softplus
from bayesian_layers.layers.outputs.output_layer import OutputLayer
from bayesian_layers.layers.receiving import ReceivesRandomVariables
from bayesian_layers.layers.register import register
from bayesian_layers.random_variable import RandomVariable


class Likelihood(ReceivesRandomVariables, OutputLayer):
    """Base of the layers that turn values of a function into observations of it.

    y ~ p(y | f), f ~ the input

    It stands last, after a layer that is a distribution over functions, such as
    `bl.layers.SparseGaussianProcess`. What it gets decides what it returns:

    - a random variable with a normal distribution: f is uncertain, and the random
      variable that it returns has the distribution `bl.distributions.Compound`.
      `bl.losses.NegativeLogLikelihood` then is the expected log-likelihood, which with
      the KL of the function makes the evidence bound; `log_prob` and the metric of that
      name are of the predictive density;
    - one that is jointly normal over the batch: the same, of each value on its own;
    - one over the nodes of a rule, as `bl.layers.DenseQuadrature` returns: f is
      uncertain too, and means over f are weighted sums over these nodes;
    - a tensor, or a random variable without uncertainty: p(y | f). Within `bl.weights`
      and in `bl.predict` a Gaussian process is one function, so it is that;
    - any other random variable, and any whose value a handler looks at or sets
      (`bl.tape`, `bl.condition`, a log joint): p(y | f) at its draw.

    A subclass writes `conditional()`, which returns a distribution of y, the name of
    the parameter of it that is link(f), and the link (`None` for f itself), as in
    `bl.distributions.Compound`.

    Args:
        num_nodes: The number of Gauss-Hermite nodes by which an uncertain f is
            integrated out where that has no closed form; see
            `bl.distributions.Compound`. Defaults to 20.
        **kwargs: As in `bl.layers.OutputLayer`.

    Example:
    >>> @keras.saving.register_keras_serializable()
    ... class Waiting(bl.layers.Likelihood):
    ...     def conditional(self):
    ...         template = bl.distributions.Exponential(rate=1.0)
    ...         return template, "rate", bl.distributions.transforms.Softplus()
    >>> f = bl.Normal(np.zeros((8, 1)), 1.0)
    >>> y = Waiting()(f)
    >>> ops.shape(y), ops.shape(y.expected_log_prob(np.ones((8, 1))))
    ((8, 1), (8, 1))
    """

    conversions = ("sample", "mean")

    def __init__(self, *, num_nodes=20, **kwargs):
        super().__init__(**kwargs)
        gauss_hermite(num_nodes)
        self.num_nodes = num_nodes

    def conditional(self):
        """Returns a distribution, the name of its parameter, and the link."""
        raise NotImplementedError(
            f"{type(self).__name__} has to implement `conditional`."
        )

    def _conversions(self):
        return self.conversions

    def distribution(self, inputs):
        """Returns the distribution of observations of a function's values."""
        template, parameter, link = self.conditional()
        over = getattr(inputs, "distribution", None)
        if isinstance(inputs, RandomVariable) and isinstance(over, OverNodes):
            return over.observed(template, parameter, link)
        latent = self._uncertain(inputs)
        if latent is not None:
            return Compound(latent, template, parameter, link, **self.rule(latent))
        f = ops.cast(ops.convert_to_tensor(inputs), self._float_dtype())
        return with_parameter(template, parameter, link, f)

    def rule(self, latent):
        """Returns the arguments of `Compound` that say how f is integrated out."""
        return {"num_nodes": self.num_nodes}

    def _uncertain(self, inputs):
        """The normal distribution of f, or `None` if f is known."""
        if not isinstance(inputs, RandomVariable) or inputs.is_wanted():
            return None
        distribution = inputs.distribution
        # Of rows that are jointly normal.
        if hasattr(distribution, "marginal"):
            distribution = distribution.marginal()
        is_one_draw = shapes.matches(shapes.static(inputs), distribution.shape())
        if is_one_draw and isinstance(distribution, distributions.Normal):
            # As Keras casts tensors: the noise has this dtype.
            return distribution._map(lambda p: ops.cast(p, self._float_dtype()))
        return None

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "num_nodes": self.num_nodes}


class NoisyLikelihood(Likelihood):
    """Base of the likelihoods of real numbers, f plus noise.

    The scale of the noise is a weight, stored untransformed and read through softplus.

    Args:
        scale: The scale that the noise starts with.
        shared: Whether all units have one scale, or each has its own.
        **kwargs: As in `bl.layers.Likelihood`.
    """

    def __init__(self, scale, shared, **kwargs):
        super().__init__(**kwargs)
        self._start = scale
        self.shared = shared
        self._softplus = parameterizations.get("softplus")

    def build(self, input_shape):
        """Makes the weight of the scale."""
        self.untransformed_scale = self.add_weight(
            shape=() if self.shared else (input_shape[-1],),
            initializer=self._initial_scale,
            name="untransformed_scale",
            dtype=self._float_dtype(),
            autocast=False,
        )

    def _initial_scale(self, shape, dtype):
        start = parameterizations.untransformed(self._softplus, self._start, dtype)
        return start * ops.ones(shape, dtype)

    @property
    def scale(self):
        """The scale of the noise, a tensor: one number, or one for each unit."""
        if not self.built:
            raise ValueError(
                f"{type(self).__name__} has no weights before it is built: call it, or "
                "the model, on some data first."
            )
        return self._softplus(ops.convert_to_tensor(self.untransformed_scale))

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "shared": self.shared}


def _check_positive(name, value, layer):
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not (is_number and 0.0 < value < float("inf")):
        raise ValueError(
            f"`{name}` of {layer} should be a positive number. "
            f"Received: {name}={value!r}"
        )


@register
class GaussianLikelihood(NoisyLikelihood):
    """Real numbers: values of a function with Gaussian noise.

    y ~ Normal(f, sqrt(noise_variance)); `[..., n] -> [..., n]`. Of an uncertain f all
    is in closed form: y ~ Normal(E f, sqrt(Var f + noise_variance)), and
    E log p(y | f) = log Normal(y | E f, sqrt(noise_variance)) - Var f / (2
    noise_variance).

    The noise is trained, unless the layer has `trainable=False`. Its weight is the
    standard deviation before softplus: gradients are finite and of use for variances
    from 1e-6.

    Args:
        noise_variance: The variance that the noise starts with, a positive number.
            Defaults to 0.1. As an attribute of the built layer, the variance now.
        shared: Whether all units have one variance (the default), or each has its own.
        **kwargs: As in `bl.layers.Likelihood`, but for `num_nodes`.

    Example:
    >>> likelihood = bl.layers.GaussianLikelihood(noise_variance=0.09)
    >>> y = likelihood(bl.Normal(np.zeros((8, 1)), 0.4))
    >>> round(float(ops.stop_gradient(y.stddev()[0, 0])), 4)
    0.5
    >>> round(float(ops.stop_gradient(likelihood.noise_variance)), 4)
    0.09
    """

    conversions = ("sample", "mean", "mode")

    def __init__(self, noise_variance=0.1, *, shared=True, **kwargs):
        if "num_nodes" in kwargs:
            raise TypeError(
                "GaussianLikelihood has closed forms, and no `num_nodes`. "
                f"Received: num_nodes={kwargs['num_nodes']}"
            )
        _check_positive("noise_variance", noise_variance, "GaussianLikelihood")
        super().__init__(noise_variance**0.5, shared, **kwargs)
        self._noise_variance = noise_variance

    @property
    def noise_variance(self):
        """The variance of the noise, a tensor: one number, or one for each unit."""
        return ops.square(self.scale)

    def conditional(self):
        """Returns the normal distribution, whose location is f."""
        return distributions.Normal(0.0, self.scale), "loc", None

    def rule(self, latent):
        """Returns nothing: all is in closed form."""
        return {}

    def get_config(self):
        """Returns the constructor's arguments."""
        config = {**super().get_config(), "noise_variance": self._noise_variance}
        del config["num_nodes"]
        return config


@register
class StudentTLikelihood(NoisyLikelihood):
    """Real numbers with outliers: values of a function with noise of heavy tails.

    y ~ StudentT(df, f, scale); `[..., n] -> [..., n]`. The scale is trained, unless the
    layer has `trainable=False`; its weight is the scale before softplus.

    An uncertain f is integrated out by Gauss-Hermite quadrature. Where f is several
    times more uncertain than the noise is wide, 20 nodes are too few for the predictive
    density; see `bl.distributions.Compound`.

    Args:
        df: Degrees of freedom, a positive number. Defaults to 4, where the variance of
            the noise is 2 * scale**2.
        scale: The scale that the noise starts with, a positive number. As an attribute
            of the built layer, the scale now.
        shared: Whether all units have one scale (the default), or each has its own.
        **kwargs: As in `bl.layers.Likelihood`.

    Example:
    >>> y = bl.layers.StudentTLikelihood()(bl.Normal(np.zeros((8, 1)), 0.3))
    >>> ops.shape(y.log_prob(np.ones((8, 1))))
    (8, 1)
    """

    def __init__(self, df=4.0, scale=0.3, *, shared=True, **kwargs):
        _check_positive("df", df, "StudentTLikelihood")
        _check_positive("scale", scale, "StudentTLikelihood")
        super().__init__(scale, shared, **kwargs)
        self.df = df

    def conditional(self):
        """Returns Student's t distribution, whose location is f."""
        return distributions.StudentT(self.df, 0.0, self.scale), "loc", None

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "df": self.df, "scale": self._start}


@register
class PoissonLikelihood(Likelihood):
    """Counts, whose rate is a function.

    y ~ Poisson(exp(f)) or Poisson(softplus(f)); `[..., n] -> [..., n]`. With exp the
    expected log-likelihood is in closed form, y E f - exp(E f + Var f / 2) - log y!;
    with softplus, and for predictive densities, it is by Gauss-Hermite quadrature.

    Args:
        link: `"exp"` (the default) or `"softplus"`: what makes a rate of f.
        **kwargs: As in `bl.layers.Likelihood`.

    Example:
    >>> y = bl.layers.PoissonLikelihood()(bl.Normal(np.zeros((8, 1)), 0.5))
    >>> round(float(y.mean()[0, 0]), 4)
    1.1331
    """

    def __init__(self, link="exp", **kwargs):
        if link not in ("exp", "softplus"):
            raise ValueError(
                "`link` of PoissonLikelihood should be 'exp' or 'softplus'. "
                f"Received: link={link!r}"
            )
        super().__init__(**kwargs)
        self.link = link

    def conditional(self):
        """Returns the Poisson distribution, by its rate or by the logarithm of it."""
        if self.link == "exp":
            return distributions.Poisson(log_rate=0.0), "log_rate", None
        return distributions.Poisson(rate=1.0), "rate", Softplus()

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "link": self.link}


@register
class BernoulliLikelihood(Likelihood):
    """Two classes, 0 and 1, with a function for the logit of class 1.

    P(y = 1) = sigmoid(f); `[..., n] -> [..., n]`. An uncertain f is integrated out by
    Gauss-Hermite quadrature.

    Args:
        **kwargs: As in `bl.layers.Likelihood`.

    Example:
    >>> y = bl.layers.BernoulliLikelihood()(bl.Normal(np.full((8, 1), 2.0), 2.0))
    >>> round(float(y.prob(np.ones((8, 1)))[0, 0]), 3)
    0.775
    """

    conversions = ("sample", "mode")

    def conditional(self):
        """Returns the Bernoulli distribution, whose logit is f."""
        return distributions.Bernoulli(logits=0.0), "logits", None


@register
class CategoricalLikelihood(Likelihood):
    """One of k classes, with k functions for their logits.

    P(y = i) = softmax(f)_i; `[..., k] -> [...]`, integers from 0 to k - 1. Over k
    uncertain functions there is no quadrature: means are over `num_samples` draws of
    f from the layer's seed. The expected log-likelihood and its gradient are unbiased;
    the predictive probabilities have the error of so many draws.

    Args:
        num_samples: The number of draws. Defaults to 10.
        **kwargs: As in `bl.layers.Likelihood`, but for `num_nodes`.

    Example:
    >>> y = bl.layers.CategoricalLikelihood()(bl.Normal(np.zeros((8, 3)), 1.0))
    >>> ops.shape(y), ops.shape(y.expected_log_prob(np.zeros(8)))
    ((8,), (8,))
    """

    conversions = ("sample", "mode")

    def __init__(self, num_samples=10, **kwargs):
        if not (isinstance(num_samples, int) and num_samples > 0):
            raise ValueError(
                "`num_samples` of CategoricalLikelihood should be a positive integer. "
                f"Received: num_samples={num_samples!r}"
            )
        if "num_nodes" in kwargs:
            raise TypeError(
                "CategoricalLikelihood takes means over `num_samples` draws, and has "
                f"no `num_nodes`. Received: num_nodes={kwargs['num_nodes']}"
            )
        super().__init__(**kwargs)
        self.num_samples = num_samples

    def conditional(self):
        """Returns the categorical distribution, whose logits are f."""
        return distributions.Categorical(logits=[0.0]), "logits", None

    def rule(self, latent):
        """Returns draws."""
        shape = (*latent._dynamic_batch_shape(), self.num_samples)
        seed = self.seed_generator
        return {"nodes": normal(shape, latent.parameter_dtype, seed)}

    def get_config(self):
        """Returns the constructor's arguments."""
        config = {**super().get_config(), "num_samples": self.num_samples}
        del config["num_nodes"]
        return config
