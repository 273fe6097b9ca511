"""Automatic guides: normal distributions over all that a model leaves open."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops

from bayesian_layers import linalg
from bayesian_layers.distributions import (
    MultivariateNormalDiag,
    MultivariateNormalTriL,
    Reshaped,
    Transformed,
)
from bayesian_layers.distributions.transforms import (
    LowerTriangular,
    Softplus,
    transform_to,
)
from bayesian_layers.parameterizations import untransformed
from bayesian_layers.programs.bound import BoundProgram, latent_variables
from bayesian_layers.random_variable import RandomVariable


class _Latent:
    """One latent variable, and where it is in the vector of real numbers.

    Args:
        variable: The random variable of a run of the model.
        start: Where its part of the vector begins.
    """

    def __init__(self, variable, start):
        self.name = variable.name
        self.shape = tuple(variable.shape)
        self.dtype = variable.distribution.dtype
        support = variable.distribution.support
        if support.is_discrete:
            raise ValueError(
                f"An automatic guide is a normal distribution, and the variable "
                f"{self.name!r} is discrete ({support!r}). Sum over its values in the "
                "model, by `bl.distributions.MixtureSameFamily` say, or write a guide "
                "that draws it: `bl.elbo` has gradients for that."
            )
        self.transform = transform_to(support)
        self.real_shape = tuple(self.transform.reverse_shape(self.shape))
        self.start = start
        self.stop = start + math.prod(self.real_shape)

    def check(self, variables):
        """Raises `ValueError` if another run of the model has another variable."""
        variable = variables.get(self.name)
        if variable is not None and tuple(variable.shape) == self.shape:
            origin = ops.zeros(self.real_shape, self.dtype)
            transform = transform_to(variable.distribution.support)
            first, second = self.transform(origin), transform(origin)
            if bool(ops.all(ops.equal(first, second))):
                return
        raise ValueError(
            "An automatic guide is for models whose latent variables, and the sets "
            "that these are in, are the same in each run. The variable "
            f"{self.name!r} is not: it, or its support, depends on other ones. Write "
            "a guide by hand, or a model in which a variable of fixed support is "
            "scaled."
        )

    def values(self, vectors):
        """The values for vectors of real numbers, `[..., size]`."""
        part = vectors[..., self.start : self.stop]
        leading = ops.shape(vectors)[:-1]
        part = ops.reshape(part, (*leading, *self.real_shape))
        return self.transform(ops.cast(part, self.dtype))


class AutomaticGuide(keras.Model):
    """Base of the automatic guides.

    The latent variables of a model are mapped to real numbers, by the inverse of
    `bl.distributions.transform_to(support)`, and laid out in one vector, which has a
    normal distribution. A subclass says which.

    A guide is a Keras model with trainable weights, to be saved by `save_weights`; a
    program is Python, so a guide is made again from its model, not from a config.

    Args:
        model: The model, as in `bl.elbo`. The support of a latent variable may not
            depend on another one.
        data: The data, as in `bl.elbo`.
        likelihood: As in `bl.elbo`.
        init_scale: Where the standard deviations of the real numbers start.
        seed: Integer seed of the run that finds the latent variables.
        **kwargs: As in `keras.Model`.
    """

    is_automatic = True

    def __init__(
        self,
        model: Callable,
        data: Mapping[str, Any] | tuple | None = None,
        *,
        likelihood: Callable | None = None,
        init_scale: float = 0.1,
        seed: int = 0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        program = BoundProgram(model, data, likelihood)
        found, again = (latent_variables(program, seed=s) for s in (seed, seed + 1))
        if not found:
            raise ValueError(
                "Expected a model with latent variables. Received: a model whose "
                "variables are all observed."
            )
        if not init_scale > 0.0:
            raise ValueError(
                f"`init_scale` should be positive. Received: init_scale={init_scale}"
            )
        self._latents = []
        for variable in found.values():
            start = self._latents[-1].stop if self._latents else 0
            self._latents.append(_Latent(variable, start))
            self._latents[-1].check(again)
        if len(again) > len(found):
            again = sorted(set(again) - set(found))
            raise ValueError(
                f"Another run of the model has the variables {again}, too."
            )
        self.size = self._latents[-1].stop
        self.init_scale = init_scale
        self.loc = self.add_weight((self.size,), "zeros", name="loc")
        self._make_scale()
        self.built = True

    def _make_scale(self):
        """Makes the weights of the scale."""
        raise NotImplementedError

    def distribution(self):
        """Returns the distribution of the vector of real numbers."""
        raise NotImplementedError

    def _part(self, latent, deviations):
        """The distribution of the real numbers of a variable.

        Args:
            latent: The variable.
            deviations: What `_deviation` returned for those before it.
        """
        raise NotImplementedError

    def _deviation(self, latent, part, value):
        """What others need to know of the value of a variable: by default nothing."""

    def __call__(self, *args, **kwargs):
        """Makes the latent variables, by name: a program, whatever its arguments.

        Returns:
            A dictionary from names to random variables.
        """
        variables, deviations = {}, []
        for latent in self._latents:
            part = self._part(latent, deviations)
            real = Reshaped.rebuild({"distribution": part, "shape": latent.real_shape})
            variables[latent.name] = variable = RandomVariable(
                Transformed(real, latent.transform), name=latent.name
            )
            if latent is not self._latents[-1]:
                deviations.append(self._deviation(latent, part, variable.value))
        return variables

    def sample(self, num_samples: int, seed: Any = None) -> dict[str, Any]:
        """Draws values of all latent variables.

        Args:
            num_samples: How many.
            seed: As in `keras.random`.

        Returns:
            A dictionary from names to tensors `[num_samples, ...]`.
        """
        vectors = self.distribution().sample(num_samples, seed=seed)
        return {latent.name: latent.values(vectors) for latent in self._latents}

    def median(self) -> dict[str, Any]:
        """The values at the mean of the real numbers, by name.

        Of scalar variables it is the median.
        """
        loc = ops.convert_to_tensor(self.loc)
        return {latent.name: latent.values(loc) for latent in self._latents}

    def get_config(self):
        """Raises: a guide is made from a program, which no config can hold."""
        raise NotImplementedError(
            f"{type(self).__name__} is made from a program, which no config can hold. "
            "Save its weights by `save_weights`, and load them into a guide that is "
            "made from the same program."
        )


class MeanFieldGuide(AutomaticGuide):
    """A guide of independent normal distributions, in unconstrained space.

    q(z) = prod_i N(x_i | loc_i, scale_i) |dx_i / dz_i|, where z = transform(x)

    The fast one: it finds centres, and spreads that are too small where variables
    depend on each other.

    Args:
        model: The model, as in `bl.elbo`. The support of a latent variable may not
            depend on another one.
        data: The data, as in `bl.elbo`.
        likelihood: As in `bl.elbo`.
        init_scale: Where the standard deviations of the real numbers start.
        seed: Integer seed of the run that finds the latent variables.
        **kwargs: As in `keras.Model`.

    Example:
    >>> def model():
    ...     rate = bl.Gamma(2.0, 1.0, name="rate")
    ...     return bl.Poisson(rate, sample_shape=3, name="y")
    >>> guide = bl.MeanFieldGuide(model, {"y": np.array([3.0, 5.0, 4.0])})
    >>> ops.shape(guide.sample(10)["rate"])
    (10,)
    """

    def _make_scale(self):
        start = untransformed(Softplus(), self.init_scale)
        self.untransformed_scale = self.add_weight(
            (self.size,),
            lambda shape, dtype=None: start * ops.ones(shape, dtype),
            name="untransformed_scale",
        )

    def distribution(self):
        """Returns the distribution of the vector of real numbers."""
        scale = Softplus()(ops.convert_to_tensor(self.untransformed_scale))
        loc = ops.convert_to_tensor(self.loc)
        return MultivariateNormalDiag.rebuild({"loc": loc, "scale_diag": scale})

    def _part(self, latent, deviations):
        whole = self.distribution()
        return whole._map(lambda parameter: parameter[latent.start : latent.stop])


class FullRankGuide(AutomaticGuide):
    """A guide that is one normal distribution over all, in unconstrained space.

    q(z) = N(x | loc, L L^T) |det dx / dz|, where z = transform(x)

    It knows how variables depend on each other, at the price of a triangular matrix L
    of all real numbers. On a tape each variable has its distribution given those before
    it, whose product q(z) is.

    Args:
        model: The model, as in `bl.elbo`. The support of a latent variable may not
            depend on another one.
        data: The data, as in `bl.elbo`.
        likelihood: As in `bl.elbo`.
        init_scale: Where the standard deviations of the real numbers start.
        seed: Integer seed of the run that finds the latent variables.
        **kwargs: As in `keras.Model`.

    Example:
    >>> def model(x):
    ...     slope = bl.Normal(0.0, 1.0, name="slope")
    ...     noise = bl.HalfNormal(1.0, name="noise")
    ...     return bl.Normal(slope * x, noise, name="y")
    >>> x = np.linspace(0.0, 1.0, 5)
    >>> guide = bl.FullRankGuide(model, {"x": x, "y": 2.0 * x})
    >>> ops.shape(guide.distribution().covariance())
    (2, 2)
    """

    def _make_scale(self):
        tril = self.init_scale * ops.eye(self.size, dtype="float32")
        start = self._triangle().reverse(tril)
        self.untransformed_tril = self.add_weight(
            start.shape,
            lambda shape, dtype=None: start,
            name="untransformed_tril",
        )

    @staticmethod
    def _triangle():
        return LowerTriangular(Softplus())

    def distribution(self):
        """Returns the distribution of the vector of real numbers."""
        loc = ops.convert_to_tensor(self.loc)
        tril = self._triangle()(ops.convert_to_tensor(self.untransformed_tril))
        return MultivariateNormalTriL.rebuild({"loc": loc, "scale_tril": tril})

    def _part(self, latent, deviations):
        whole = self.distribution()
        rows = whole.scale_tril[latent.start : latent.stop]
        loc = whole.loc[latent.start : latent.stop]
        if deviations:
            before = ops.concatenate(deviations)
            loc = loc + ops.matmul(rows[:, : latent.start], before)
        tril = rows[:, latent.start : latent.stop]
        return MultivariateNormalTriL.rebuild({"loc": loc, "scale_tril": tril})

    def _deviation(self, latent, part, value):
        real = ops.reshape(latent.transform.reverse(value), (-1,))
        return linalg.solve_lower_vectors(part.scale_tril, real - part.loc)
