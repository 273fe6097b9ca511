"""The table of closed forms of KL(q || p)."""

import math

import numpy as np
from keras import ops

from bayesian_layers import backend, linalg
from bayesian_layers.distributions import multivariate_normal as mvn
from bayesian_layers.distributions.bernoulli import Bernoulli
from bayesian_layers.distributions.beta import Beta
from bayesian_layers.distributions.binomial import Binomial
from bayesian_layers.distributions.categorical import Categorical
from bayesian_layers.distributions.cauchy import Cauchy
from bayesian_layers.distributions.dirichlet import Dirichlet
from bayesian_layers.distributions.exponential import Exponential
from bayesian_layers.distributions.functions import (
    EULER_GAMMA,
    HALF_LOG_2_PI,
    LOG_2,
    multiply_no_nan,
)
from bayesian_layers.distributions.gamma import Gamma
from bayesian_layers.distributions.gumbel import Gumbel
from bayesian_layers.distributions.half_normal import HalfNormal
from bayesian_layers.distributions.independent import Independent
from bayesian_layers.distributions.inverse_gamma import InverseGamma
from bayesian_layers.distributions.joint_normal import JointNormal
from bayesian_layers.distributions.kl_divergence import kl_divergence, register_kl
from bayesian_layers.distributions.laplace import Laplace
from bayesian_layers.distributions.log_normal import LogNormal
from bayesian_layers.distributions.multinomial import Multinomial
from bayesian_layers.distributions.negative_binomial import NegativeBinomial
from bayesian_layers.distributions.normal import Normal
from bayesian_layers.distributions.one_hot_categorical import OneHotCategorical
from bayesian_layers.distributions.poisson import Poisson
from bayesian_layers.distributions.stirling import gamma_divergence
from bayesian_layers.distributions.transformed import Transformed
from bayesian_layers.distributions.uniform import Uniform

# Location-scale families.


@register_kl(LogNormal, LogNormal)
@register_kl(Normal, Normal)
def _normal(q, p):
    ratio = q.scale / p.scale
    distance = (q.loc - p.loc) / p.scale
    return 0.5 * (ops.square(ratio) + ops.square(distance) - 1.0) - ops.log(ratio)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(q, p):
    ratio = q.scale / p.scale
    return 0.5 * (ops.square(ratio) - 1.0) - ops.log(ratio)


@register_kl(Laplace, Laplace)
def _laplace(q, p):
    ratio = q.scale / p.scale
    distance = ops.abs(q.loc - p.loc)
    decay = ops.exp(-distance / q.scale)
    return distance / p.scale + ratio * decay - 1.0 - ops.log(ratio)


@register_kl(Normal, Laplace)
def _normal_laplace(q, p):
    z = (q.loc - p.loc) / q.scale
    # E|x - p.loc| of the folded normal.
    distance = q.scale * (
        math.sqrt(2.0 / math.pi) * ops.exp(-0.5 * ops.square(z))
        + z * ops.erf(z / math.sqrt(2.0))
    )
    return distance / p.scale + ops.log(p.scale) + LOG_2 - q._entropy()


@register_kl(Gumbel, Gumbel)
def _gumbel(q, p):
    ratio = q.scale / p.scale
    shift = (q.loc - p.loc) / p.scale
    return (
        -ops.log(ratio)
        + EULER_GAMMA * (ratio - 1.0)
        - 1.0
        + shift
        + ops.exp(backend.lgamma(ratio + 1.0) - shift)
    )


@register_kl(Cauchy, Cauchy)
def _cauchy(q, p):
    squared = ops.square(q.scale + p.scale) + ops.square(q.loc - p.loc)
    return ops.log(squared) - ops.log(4.0 * q.scale * p.scale)


@register_kl(Uniform, Uniform)
def _uniform(q, p):
    inside = ops.logical_and(q.low >= p.low, q.high <= p.high)
    return ops.where(inside, ops.log((p.high - p.low) / (q.high - q.low)), np.inf)


@register_kl(Uniform, Normal)
def _uniform_normal(q, p):
    second_moment = q._variance() + ops.square(q._mean() - p.loc)
    cross_entropy = (
        0.5 * second_moment / ops.square(p.scale) + ops.log(p.scale) + HALF_LOG_2_PI
    )
    return cross_entropy - q._entropy()


# Families on the positive numbers and on the simplex.


@register_kl(Exponential, Exponential)
def _exponential(q, p):
    ratio = p.rate / q.rate
    return ratio - 1.0 - ops.log(ratio)


@register_kl(Gamma, Gamma)
def _gamma(q, p):
    return gamma_divergence(q.concentration, p.concentration, p.rate / q.rate)


@register_kl(Exponential, Gamma)
def _exponential_gamma(q, p):
    one = ops.ones_like(q.rate)
    return gamma_divergence(one, p.concentration, p.rate / q.rate)


@register_kl(Gamma, Exponential)
def _gamma_exponential(q, p):
    one = ops.ones_like(p.rate)
    return gamma_divergence(q.concentration, one, p.rate / q.rate)


@register_kl(InverseGamma, InverseGamma)
def _inverse_gamma(q, p):
    return gamma_divergence(q.concentration, p.concentration, p.scale / q.scale)


@register_kl(Beta, Beta)
def _beta(q, p):
    ratio = p._total() / q._total()
    parts = gamma_divergence(
        q.concentration1, p.concentration1, ratio
    ) + gamma_divergence(q.concentration0, p.concentration0, ratio)
    return parts - gamma_divergence(q._total(), p._total(), ratio)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(q, p):
    # Gamma variables are their proportions and, independent of these, their total. The
    # rates are free; with this ratio the terms are as small as their difference.
    q_total, p_total = q._total(), p._total()
    ratio = p_total / q_total
    parts = gamma_divergence(q.concentration, p.concentration, ratio[..., None])
    return ops.sum(parts, axis=-1) - gamma_divergence(q_total, p_total, ratio)


# Discrete families.


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(q, p):
    (q_failure, q_success), (p_failure, p_success) = q._log_probs(), p._log_probs()
    return _expected_difference(q.probs, q_success, p_success) + _expected_difference(
        q._failure(), q_failure, p_failure
    )


def _expected_difference(weight, log_q, log_p):
    """weight * (log_q - log_p): 0 where the weight is, inf where only p has none."""
    return multiply_no_nan(weight, log_q) - multiply_no_nan(weight, log_p)


@register_kl(Binomial, Binomial)
def _binomial(q, p):
    return _same_count(q, p, q.total_count * _bernoulli(q, p))


@register_kl(NegativeBinomial, NegativeBinomial)
def _negative_binomial(q, p):
    (q_failure, q_success), (p_failure, p_success) = q._log_probs(), p._log_probs()
    successes = _expected_difference(q._mean(), q_success, p_success)
    failures = _expected_difference(q.total_count, q_failure, p_failure)
    return _same_count(q, p, successes + failures)


def _same_count(q, p, divergence):
    """Refuses different counts where they can be seen, and is NaN where they cannot."""
    same = ops.equal(q.total_count, p.total_count)
    if backend.is_concrete(same) and not bool(ops.all(same)):
        raise NotImplementedError(
            f"KL({type(q).__name__} || {type(p).__name__}) has a closed form for equal "
            "`total_count` only. Estimate it with `method='monte_carlo', "
            "num_samples=...`."
        )
    return ops.where(same, divergence, np.nan)


@register_kl(Poisson, Poisson)
def _poisson(q, p):
    return q.rate * (q.log_rate - p.log_rate) - q.rate + p.rate


@register_kl(OneHotCategorical, OneHotCategorical)
@register_kl(Categorical, Categorical)
def _categorical(q, p):
    if q.num_categories != p.num_categories:
        raise ValueError(
            "KL of categorical distributions expects the same number of categories. "
            f"Received: {q.num_categories} and {p.num_categories}"
        )
    return ops.sum(
        _expected_difference(q.probs, q._log_probs(), p._log_probs()), axis=-1
    )


@register_kl(Multinomial, Multinomial)
def _multinomial(q, p):
    return _same_count(q, p, q.total_count * _categorical(q, p))


# Multivariate normal families.


@register_kl(mvn.MultivariateNormalDiag, mvn.MultivariateNormalDiag)
def _normal_diag(q, p):
    terms = _normal(
        Normal.rebuild({"loc": q.loc, "scale": q.scale_diag}),
        Normal.rebuild({"loc": p.loc, "scale": p.scale_diag}),
    )
    return ops.sum(terms, axis=-1)


@register_kl(mvn.MultivariateNormal, mvn.MultivariateNormal)
def _multivariate_normal(q, p):
    # trace(P^-1 Q) = trace(R^T P^-1 R) for Q = R R^T: no matrix is factorized again.
    trace = p._squares(q._root())
    distance = p._squared_distance(q.loc - p.loc)
    excess = trace + distance - q.event_shape[0]
    return 0.5 * excess + p._half_log_det() - q._half_log_det()


@register_kl(mvn.MultivariateNormal, mvn.MultivariateNormalDiag)
def _multivariate_normal_diag(q, p):
    # Without the covariance matrix: q may have thousands of elements and a low rank.
    second_moment = q.variance() + ops.square(q.loc - p.loc)
    square = ops.sum(second_moment / ops.square(p.scale_diag), axis=-1)
    return 0.5 * (square - q.event_shape[0]) + p._half_log_det() - q._half_log_det()


@register_kl(JointNormal, JointNormal)
def _joint_normal(q, p):
    if q.event_shape != p.event_shape:
        raise ValueError(
            "KL of JointNormal expects equal numbers of rows and of units. Received: "
            f"event_shape={q.event_shape} and event_shape={p.event_shape}"
        )
    q_tril, p_tril = q._tril(), p._tril()
    squares = ops.square(linalg.solve_lower(p_tril, q_tril))
    log_ratio = linalg.half_log_det(p_tril) - linalg.half_log_det(q_tril)
    excess = 0.5 * (ops.sum(squares, axis=(-2, -1)) - q._rows()) + log_ratio
    return q._sum_over_units(excess) + 0.5 * p._squared_distance(q.loc - p.loc)


# Distributions made from others.


@register_kl(Independent, Independent)
def _independent(q, p):
    if q.reinterpreted_batch_ndims != p.reinterpreted_batch_ndims:
        raise ValueError(
            "KL of Independent expects equal `reinterpreted_batch_ndims`. "
            f"Received: {q.reinterpreted_batch_ndims} and {p.reinterpreted_batch_ndims}"
        )
    terms = kl_divergence(q.distribution, p.distribution, "closed_form")
    rank = q.reinterpreted_batch_ndims
    zeros = ops.zeros(q._dynamic_batch_shape() + q.event_shape[:rank], terms.dtype)
    return q._sum(terms + zeros, rank)


@register_kl(Transformed, Transformed)
def _transformed(q, p):
    if q.transform != p.transform:
        raise NotImplementedError(
            "KL of Transformed distributions has a closed form for equal transforms "
            "only. Estimate it with `method='monte_carlo', num_samples=...`."
        )
    return q._sum(
        kl_divergence(q.distribution, p.distribution, "closed_form"), q._taken()
    )
