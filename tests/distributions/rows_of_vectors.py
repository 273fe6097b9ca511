"""The continuous distributions of vectors."""

import numpy as np

from bayesian_layers import distributions
from tests.distributions.references_of_vectors import (
    JointNormal,
    Radial,
    dirichlet,
    matrix_normal,
    multivariate_normal,
)
from tests.distributions.rows import (
    covariance,
    lower_triangular,
    positive,
    real,
    row,
)

row(
    "Dirichlet",
    distributions.Dirichlet,
    dirichlet,
    missing="cdf quantile",
    concentration=positive(2, 3),
)
row(
    "MultivariateNormalDiag",
    distributions.MultivariateNormalDiag,
    lambda loc, scale_diag: multivariate_normal(
        loc, np.square(scale_diag)[..., None] * np.eye(3)
    ),
    missing="cdf quantile",
    loc=real(2, 3),
    scale_diag=positive(3),
)
row(
    "MultivariateNormalTriL",
    distributions.MultivariateNormalTriL,
    lambda loc, scale_tril: multivariate_normal(
        loc, np.tril(scale_tril) @ np.swapaxes(np.tril(scale_tril), -1, -2)
    ),
    missing="cdf quantile",
    loc=real(2, 3),
    scale_tril=lower_triangular(3, 3),
)
row(
    "MultivariateNormalFullCovariance",
    distributions.MultivariateNormalFullCovariance,
    lambda loc, covariance_matrix: multivariate_normal(
        # As both halves are read, a step of one element is half a step of its twin.
        loc,
        0.5 * (covariance_matrix + np.swapaxes(covariance_matrix, -1, -2)),
    ),
    missing="cdf quantile",
    loc=real(2, 3),
    covariance_matrix=covariance(3, 3),
)
row(
    "MultivariateNormalLowRank",
    distributions.MultivariateNormalLowRank,
    lambda loc, cov_diag_factor, cov_perturb_factor: multivariate_normal(
        loc,
        cov_diag_factor[..., None] * np.eye(3)
        + cov_perturb_factor @ np.swapaxes(cov_perturb_factor, -1, -2),
    ),
    missing="cdf quantile",
    loc=real(2, 3),
    cov_diag_factor=positive(3),
    cov_perturb_factor=real(2, 3, 2),
)
row(
    "MultivariateNormalKronecker",
    distributions.MultivariateNormalKronecker,
    matrix_normal,
    missing="cdf quantile",
    loc=real(2, 6),
    row_tril=lower_triangular(3, 3),
    column_tril=lower_triangular(2, 2, 2),
)
row(
    "Radial",
    distributions.Radial,
    Radial,
    missing="cdf quantile entropy",
    loc=real(2, 3),
    scale_diag=positive(2, 3),
)
row(
    "JointNormal",
    distributions.JointNormal,
    JointNormal,
    missing="cdf quantile",
    loc=real(2, 3, 2),
    covariance_matrix=covariance(1, 3, 3),
)
row(
    "JointNormal of several covariances",
    distributions.JointNormal,
    JointNormal,
    missing="cdf quantile",
    loc=real(2, 1, 3, 2),
    covariance_matrix=covariance(3, 2, 3, 3),
)
