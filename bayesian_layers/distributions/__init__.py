"""Distributions, on `keras.ops` only; names and conventions are those of TFP."""

from bayesian_layers.distributions import constraints, transforms
from bayesian_layers.distributions import kl_closed_forms as _kl_closed_forms
from bayesian_layers.distributions.bernoulli import Bernoulli
from bayesian_layers.distributions.beta import Beta
from bayesian_layers.distributions.binomial import Binomial
from bayesian_layers.distributions.categorical import Categorical
from bayesian_layers.distributions.cauchy import Cauchy
from bayesian_layers.distributions.compound import Compound
from bayesian_layers.distributions.deterministic import Deterministic
from bayesian_layers.distributions.dirichlet import Dirichlet
from bayesian_layers.distributions.distribution import Distribution
from bayesian_layers.distributions.exponential import Exponential
from bayesian_layers.distributions.gamma import Gamma
from bayesian_layers.distributions.gumbel import Gumbel
from bayesian_layers.distributions.half_cauchy import HalfCauchy
from bayesian_layers.distributions.half_normal import HalfNormal
from bayesian_layers.distributions.independent import Independent
from bayesian_layers.distributions.inverse_gamma import InverseGamma
from bayesian_layers.distributions.joint_normal import JointNormal
from bayesian_layers.distributions.kl_divergence import kl_divergence, register_kl
from bayesian_layers.distributions.laplace import Laplace
from bayesian_layers.distributions.log_normal import LogNormal
from bayesian_layers.distributions.logistic import Logistic
from bayesian_layers.distributions.mixture_same_family import MixtureSameFamily
from bayesian_layers.distributions.multinomial import Multinomial
from bayesian_layers.distributions.multivariate_normal import (
    MultivariateNormalDiag,
    MultivariateNormalLowRank,
    MultivariateNormalTriL,
)
from bayesian_layers.distributions.multivariate_normal_covariance import (
    MultivariateNormalFullCovariance,
)
from bayesian_layers.distributions.multivariate_normal_kronecker import (
    MultivariateNormalKronecker,
)
from bayesian_layers.distributions.negative_binomial import NegativeBinomial
from bayesian_layers.distributions.normal import Normal
from bayesian_layers.distributions.one_hot_categorical import OneHotCategorical
from bayesian_layers.distributions.poisson import Poisson
from bayesian_layers.distributions.quantized import Quantized
from bayesian_layers.distributions.radial import Radial
from bayesian_layers.distributions.reshaped import Reshaped
from bayesian_layers.distributions.student_t import StudentT
from bayesian_layers.distributions.transformed import Transformed
from bayesian_layers.distributions.transforms import transform_to
from bayesian_layers.distributions.truncated_normal import TruncatedNormal
from bayesian_layers.distributions.uniform import Uniform

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Compound",
    "Deterministic",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "Gamma",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "JointNormal",
    "Laplace",
    "LogNormal",
    "Logistic",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormalDiag",
    "MultivariateNormalFullCovariance",
    "MultivariateNormalKronecker",
    "MultivariateNormalLowRank",
    "MultivariateNormalTriL",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "Poisson",
    "Quantized",
    "Radial",
    "Reshaped",
    "StudentT",
    "Transformed",
    "TruncatedNormal",
    "Uniform",
    "constraints",
    "kl_divergence",
    "register_kl",
    "transform_to",
    "transforms",
]
del _kl_closed_forms
