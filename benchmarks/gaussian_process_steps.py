"""The sides of `gaussian_process.py`: each in a process, with its library only.

Each is a function from the name of a case to a function that makes one step and returns
its loss, or to `None` if the side has no such case.
"""

import functools

import numpy as np

SIZE, BATCH, EXACT_SIZE, DIMENSIONS = 10_000, 1024, 2_000, 8
INDUCING, DEEP_INDUCING = 512, 128
RATE, NOISE, JITTER = 1e-3, 0.1, 1e-5
LENGTHSCALE = DIMENSIONS**0.5

rng = np.random.default_rng(0)
X = rng.normal(size=(SIZE, DIMENSIONS)).astype("float32")
Y = (np.sin(X.sum(axis=1, keepdims=True)) + 0.3 * X[:, :1]).astype("float32")
POINTS = X[rng.choice(SIZE, INDUCING, replace=False)]
# The inducing values start at no mean and this root of their covariance.
START = 0.5


# Ours, on the backend that Keras runs on.


def ours(case):
    import bayesian_layers as bl

    # isort: split
    import keras

    rows = EXACT_SIZE if case == "exact" else BATCH
    x, y = (keras.ops.convert_to_tensor(a[:rows]) for a in (X, Y))
    covariance = bl.covariances.ExponentiatedQuadratic(
        lengthscale=LENGTHSCALE, ard=True
    )
    if case == "exact":
        layers = [bl.layers.GaussianProcess(1, None, covariance, noise_variance=NOISE)]
        model = keras.Sequential([keras.Input((DIMENSIONS,)), *layers])
    elif case == "sparse":
        start = bl.initializers.TrainableMultivariateNormalRows(START)
        process = bl.layers.SparseGaussianProcess(
            1,
            INDUCING,
            None,
            covariance,
            inducing_inputs=POINTS,
            inducing_values_initializer=start,
        )
        likelihood = bl.layers.GaussianLikelihood(NOISE)
        model = keras.Sequential([keras.Input((DIMENSIONS,)), process, likelihood])
    else:
        model = bl.layers.deep_gaussian_process(
            POINTS,
            num_inducing=DEEP_INDUCING,
            hidden_units=DIMENSIONS,
            covariance_fn=covariance,
            likelihood=bl.layers.GaussianLikelihood(NOISE),
            seed=0,
        )
    if case != "exact":
        bl.scale_kl(model, dataset_size=SIZE)
    model.compile(keras.optimizers.Adam(RATE), bl.losses.NegativeLogLikelihood())
    return functools.partial(model.train_on_batch, x, y)


# By hand.


def by_hand(case):
    import jax
    import jax.numpy as jnp
    import jax.scipy.linalg as linalg
    from hand_written import adam_steps

    solve = functools.partial(linalg.solve_triangular, lower=True)

    def kernel(parameters, x, z):
        lengthscale = jax.nn.softplus(parameters["lengthscale"])
        x, z = x / lengthscale, z / lengthscale
        squares = jnp.sum(x**2, 1)[:, None] + jnp.sum(z**2, 1) - 2.0 * x @ z.T
        amplitude = jax.nn.softplus(parameters["amplitude"])
        return amplitude**2 * jnp.exp(-0.5 * jnp.maximum(squares, 0.0))

    @jax.custom_vjp
    def log_density(matrix, y):
        return log_density_forward(matrix, y)[0]

    def log_density_forward(matrix, y):
        tril = jnp.linalg.cholesky(matrix)
        solved = linalg.cho_solve((tril, True), y)
        log_det = jnp.sum(jnp.log(jnp.diagonal(tril)))
        constant = 0.5 * len(y) * np.log(2.0 * np.pi)
        return -0.5 * y @ solved - log_det - constant, (tril, solved)

    def log_density_backward(kept, upstream):
        tril, solved = kept
        inverse = linalg.cho_solve((tril, True), jnp.eye(len(solved)))
        gradient = 0.5 * (jnp.outer(solved, solved) - inverse)
        return upstream * gradient, -upstream * solved

    log_density.defvjp(log_density_forward, log_density_backward)

    def process(parameters, x):
        """Mean and variance `[units, n]` of a sparse process, and its KL."""
        points, loc = parameters["points"], parameters["loc"]
        jitter = JITTER * jnp.eye(len(points))
        factor = jnp.linalg.cholesky(kernel(parameters, points, points) + jitter)
        whitened = solve(factor, kernel(parameters, points, x))
        diagonal = jnp.diagonal(parameters["root"], axis1=-2, axis2=-1)
        diagonal = jax.nn.softplus(diagonal)
        eye = jnp.eye(len(points))
        root = jnp.tril(parameters["root"], -1) + diagonal[..., None] * eye
        spread = jnp.swapaxes(root, -1, -2) @ whitened
        variance = jax.nn.softplus(parameters["amplitude"]) ** 2
        variance = variance - jnp.sum(whitened**2, 0) + jnp.sum(spread**2, -2)
        squares = jnp.sum(loc**2) + jnp.sum(root**2) - loc.size
        kl = 0.5 * squares - jnp.sum(jnp.log(diagonal))
        return loc @ whitened, jnp.maximum(variance, 1e-6), kl

    def bound(parameters, x, y, kl):
        """The negative evidence bound per example, of the last process."""
        mean, variance, last_kl = process(parameters, x)
        noise = jax.nn.softplus(parameters["noise"]) ** 2
        squares = (y[:, 0] - mean) ** 2 + variance
        error = 0.5 * squares / noise + 0.5 * jnp.log(2.0 * np.pi * noise)
        return jnp.mean(error) + (kl + last_kl) / SIZE

    def exact_loss(parameters, key):
        noise = jax.nn.softplus(parameters["noise"])
        x = jnp.asarray(X[:EXACT_SIZE])
        matrix = kernel(parameters, x, x) + noise * jnp.eye(EXACT_SIZE)
        return -log_density(matrix, jnp.asarray(Y[:EXACT_SIZE, 0])) / EXACT_SIZE

    def sparse_loss(parameters, key):
        return bound(parameters, jnp.asarray(X[:BATCH]), jnp.asarray(Y[:BATCH]), 0.0)

    def deep_loss(parameters, key):
        inner, last = parameters
        x = jnp.asarray(X[:BATCH])
        mean, variance, kl = process(inner, x)
        noise = jax.random.normal(key, mean.shape)
        hidden = x + (mean + jnp.sqrt(variance) * noise).T
        return bound(last, hidden, jnp.asarray(Y[:BATCH]), kl)

    hyperparameters = {
        "lengthscale": np.full(DIMENSIONS, np.log(np.expm1(LENGTHSCALE))),
        "amplitude": np.log(np.expm1(1.0)),
        "noise": np.log(np.expm1(NOISE if case == "exact" else NOISE**0.5)),
    }

    def start(units, count, stddev):
        root = np.log(np.expm1(stddev)) * np.eye(count)
        return {
            **hyperparameters,
            "points": POINTS[:count],
            "loc": np.zeros((units, count)),
            "root": np.broadcast_to(root, (units, count, count)),
        }

    if case == "exact":
        return adam_steps(exact_loss, hyperparameters, RATE)
    if case == "sparse":
        return adam_steps(sparse_loss, start(1, INDUCING, START), RATE)
    layers = [start(DIMENSIONS, DEEP_INDUCING, 0.01), start(1, DEEP_INDUCING, 1.0)]
    return adam_steps(deep_loss, layers, RATE)


# Libraries.


def gpflow(case):
    import gpflow
    import tensorflow as tf
    import tf_keras

    if case == "deep":
        return None
    gpflow.config.set_default_float(np.float32)
    gpflow.config.set_default_jitter(JITTER)
    kernel = gpflow.kernels.SquaredExponential(
        lengthscales=np.full(DIMENSIONS, LENGTHSCALE, "float32")
    )
    if case == "exact":
        data = (tf.constant(X[:EXACT_SIZE]), tf.constant(Y[:EXACT_SIZE]))
        model = gpflow.models.GPR(data, kernel, noise_variance=np.float32(NOISE))
        loss, scale = model.training_loss, 1.0 / EXACT_SIZE
    else:
        likelihood = gpflow.likelihoods.Gaussian(np.float32(NOISE))
        root = START * np.eye(INDUCING, dtype="float32")[None]
        model = gpflow.models.SVGP(
            kernel, likelihood, POINTS, num_data=SIZE, q_sqrt=root
        )
        data = (tf.constant(X[:BATCH]), tf.constant(Y[:BATCH]))
        loss, scale = model.training_loss_closure(data, compile=False), 1.0 / SIZE
    optimizer = tf_keras.optimizers.legacy.Adam(RATE)
    variables = model.trainable_variables

    @tf.function
    def step():
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            value = scale * loss()
        gradients = tape.gradient(value, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return value

    return lambda: float(step())


def gpytorch(case):
    import gpytorch
    import torch

    torch.set_num_threads(1)
    rows = EXACT_SIZE if case == "exact" else BATCH
    x, y = torch.tensor(X[:rows]), torch.tensor(Y[:rows, 0])

    def covariance(units=()):
        base = gpytorch.kernels.RBFKernel(ard_num_dims=DIMENSIONS)
        base.lengthscale = LENGTHSCALE
        kernel = gpytorch.kernels.ScaleKernel(base)
        kernel.outputscale = 1.0
        return kernel

    def variational(model, units, points, stddev):
        batch = torch.Size([units]) if units else torch.Size([])
        q = gpytorch.variational.CholeskyVariationalDistribution(
            len(points), batch_shape=batch, mean_init_std=0.0
        )
        q.chol_variational_covar.data.mul_(stddev)
        return gpytorch.variational.VariationalStrategy(
            model, torch.tensor(points), q, learn_inducing_locations=True
        )

    class Exact(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(x, y, likelihood)
            self.kernel = covariance()

        def forward(self, x):
            zeros = torch.zeros(x.shape[:-1])
            return gpytorch.distributions.MultivariateNormal(zeros, self.kernel(x))

    class Sparse(gpytorch.models.ApproximateGP):
        def __init__(self):
            super().__init__(variational(self, None, POINTS, START))
            # What it has drawn at its start is of its own.
            self.variational_strategy.variational_params_initialized.fill_(1)
            self.kernel = covariance()

        forward = Exact.forward

    class Layer(gpytorch.models.deep_gps.DeepGPLayer):
        def __init__(self, units, stddev):
            strategy = variational(self, units, POINTS[:DEEP_INDUCING], stddev)
            super().__init__(strategy, DIMENSIONS, units)
            strategy.variational_params_initialized.fill_(1)
            self.kernel, self.units = covariance(), units

        def forward(self, x):
            # The identity, for each function its own dimension.
            mean = torch.zeros(x.shape[:-1])
            if self.units:
                mean = mean + x[..., 0, :, :].transpose(-1, -2)
            return gpytorch.distributions.MultivariateNormal(mean, self.kernel(x))

    class Deep(gpytorch.models.deep_gps.DeepGP):
        def __init__(self):
            super().__init__()
            self.inner, self.last = Layer(DIMENSIONS, 0.01), Layer(None, 1.0)

        def forward(self, x):
            return self.last(self.inner(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    likelihood.noise = NOISE
    model = (
        Exact(likelihood) if case == "exact" else {"sparse": Sparse}.get(case, Deep)()
    )
    if case == "exact":
        objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    else:
        objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=SIZE)
    if case == "deep":
        objective = gpytorch.mlls.DeepApproximateMLL(objective)
    model.train(), likelihood.train()
    parameters = {*model.parameters(), *likelihood.parameters()}
    optimizer = torch.optim.Adam(list(parameters), RATE)

    def step():
        optimizer.zero_grad()
        # Cholesky factors at any size, and one draw of inner layers.
        with (
            gpytorch.settings.fast_computations(False, False, False),
            gpytorch.settings.num_likelihood_samples(1),
            gpytorch.settings.cholesky_jitter(JITTER),
        ):
            loss = -objective(model(x), y)
            loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def gpjax(case):
    import equinox
    import gpjax
    import jax
    import jax.numpy as jnp
    import optax

    if case == "deep":
        return None
    rows = EXACT_SIZE if case == "exact" else BATCH
    full = rows if case == "exact" else SIZE
    data = gpjax.Dataset(jnp.asarray(X[:rows]), jnp.asarray(Y[:rows]), n_total=full)
    kernel = gpjax.kernels.RBF(
        active_dims=list(range(DIMENSIONS)),
        lengthscale=jnp.full(DIMENSIONS, LENGTHSCALE, "float32"),
    )
    prior = gpjax.gps.Prior(
        mean_function=gpjax.mean_functions.Zero(), kernel=kernel, jitter=JITTER
    )
    likelihood = gpjax.likelihoods.Gaussian(
        obs_stddev=jnp.asarray(NOISE**0.5, "float32")
    )
    model = prior * likelihood
    objective = gpjax.objectives.conjugate_mll
    if case == "sparse":
        model = gpjax.variational_families.WhitenedVariationalGaussian(
            model=model,
            inducing_inputs=jnp.asarray(POINTS),
            variational_root_covariance=START * jnp.eye(INDUCING),
        )
        objective = gpjax.objectives.elbo
    optimizer = optax.adam(RATE)

    @equinox.filter_jit
    def update(model, state):
        def loss(model):
            return -objective(model, data) / full

        value, gradient = equinox.filter_value_and_grad(loss)(model)
        updates, state = optimizer.update(gradient, state)
        return equinox.apply_updates(model, updates), state, value

    kept = [model, optimizer.init(equinox.filter(model, equinox.is_array))]

    def step():
        kept[0], kept[1], value = update(*kept)
        return float(jax.device_get(value))

    return step


SIDES = {
    "by hand": by_hand,
    "jax": ours,
    "tensorflow": ours,
    "torch": ours,
    "gpflow": gpflow,
    "gpytorch": gpytorch,
    "gpjax": gpjax,
}
