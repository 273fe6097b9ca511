"""Deep ensembles."""

import functools

import keras
from keras import ops

from bayesian_layers import backend, keras_contact, seeds
from bayesian_layers.distributions import Distribution
from bayesian_layers.ensemble import checks, together
from bayesian_layers.ensemble.mixing import mix, mixable, stack
from bayesian_layers.ensemble.optimizers import MemberOptimizers
from bayesian_layers.random_variable import RandomVariable
from bayesian_layers.random_weights.training_checks import skip_checks
from bayesian_layers.trace import is_tracing

CONVERSIONS = ("sample", "mean", "mode")


@keras.saving.register_keras_serializable("bayesian_layers.ensemble")
class Ensemble(keras_contact.OwnTrainState, keras.Model):
    """A deep ensemble: networks that start apart, train apart and predict together.

    p(y | x) = 1/size sum_i p(y | x, w_i)

    The members are models of one architecture with weights w_i of their own, which
    `build_model` makes by being called `size` times. `compile` and `fit` are those of a
    Keras model. Each member sees each batch and is trained as if it were alone: with
    its own optimizer, penalties, noise and batch statistics. On JAX this is one
    program, mapped over the members; on the other backends it is a loop.

    Called, evaluated or exported, the ensemble is one model. Where members end with a
    stochastic output layer its output is a random variable with the equal mixture of
    their distributions, which for classifiers is the mean of their probabilities;
    plain outputs are averaged. `bl.predict(ensemble, x)` keeps the members apart: they
    are its draws, and what they disagree on is epistemic.

    What `fit` logs are means over members, of losses and of metrics; `evaluate`, and so
    `val_loss`, has the compiled loss and metrics of the mixture, which are usually
    better. Penalties, such as the KLs of Bayesian members, are in both the mean over
    members; `bl.total_kl(ensemble)`, and the `kl` that `bl.callbacks.KLSchedule` logs,
    are their sum. A member with a `compute_loss` or `train_step` of its own is trained
    by it.

    The optimizer is copied for each member; `ensemble.optimizer.learning_rate = ...`
    sets that of all.

    Args:
        build_model: A function without arguments that returns a new `keras.Model` at
            each call: with random initial weights, and without fixed seeds for them.
        size: The number of members.
        convert: What other layers, losses and metrics see of a random variable that the
            ensemble returns: `"sample"` (the default), a draw from it, its `"mean"` or
            its `"mode"`.
        **kwargs: As in `keras.Model`.

    Attributes:
        members: The list of models.

    Example:
    >>> def build_model():
    ...     return keras.Sequential(
    ...         [keras.Input((1,)), keras.layers.Dense(8, "relu"), bl.layers.Normal(1)]
    ...     )
    >>> ensemble = bl.Ensemble(build_model, size=5)
    >>> ensemble.compile("adam", bl.losses.NegativeLogLikelihood())
    >>> x, y = np.ones((32, 1)), np.ones((32, 1))
    >>> history = ensemble.fit(x, y, epochs=2, verbose=0)
    >>> prediction = bl.predict(ensemble, x, verbose=0)
    >>> prediction.samples.shape, bool(np.all(prediction.epistemic > 0.0))
    ((5, 32, 1), True)

    Reference: Lakshminarayanan et al. (2017), Simple and Scalable Predictive
    Uncertainty Estimation using Deep Ensembles.
    """

    def __init__(self, build_model, size, *, convert="sample", **kwargs):
        if convert not in CONVERSIONS:
            raise ValueError(
                f"`convert` should be one of {CONVERSIONS}. Received: {convert!r}"
            )
        members = checks.made(build_model, size)
        if any(isinstance(member, Ensemble) for member in members):
            raise ValueError(
                "Members of an ensemble should be single models: give it a larger "
                f"`size`. Received: build_model={build_model!r} that returns an "
                "Ensemble."
            )
        checks.check_alike(members)
        super().__init__(**kwargs)
        self.convert = convert
        self.seed_generator = seeds.generator(None)
        self.members = members
        self._logs_of_members = False
        self.built = all(member.built for member in members)

    @property
    def size(self):
        """The number of members."""
        return len(self.members)

    # One model.

    def call(self, inputs, training=None):
        """Returns the equal mixture of the members, or the mean of plain outputs."""
        members = self.members
        is_symbolic = keras_contact.in_symbolic_scope()
        if is_symbolic and self._is_known():
            return self._call_member(members[0], inputs, training)  # All are alike.
        if backend.maps_models and self._is_known() and not is_tracing():
            outputs, masks = together.outputs(members, inputs, training)
        else:
            found = [self._call_member(member, inputs, training) for member in members]
            if is_symbolic:
                return found[0]
            masks = keras.tree.map_structure(keras_contact.mask_of, found[0])
            outputs = keras.tree.map_structure(
                lambda *outputs: stack(list(map(mixable, outputs))), *found
            )
        return keras.tree.map_structure(self._mixed, outputs, masks)

    def _is_known(self):
        """Whether all members have their variables already."""
        return all(
            layer.built
            for member in self.members
            for layer in keras_contact.flatten_layers(member)
        )

    @staticmethod
    def _call_member(member, inputs, training):
        with keras_contact.calling(member, training):
            return member(inputs, training=training)

    def _mixed(self, stacked, mask):
        output = mix(stacked)
        if isinstance(output, Distribution):
            is_drawn = self.convert == "sample"
            output = RandomVariable(
                output,
                value=None if is_drawn else getattr(output, self.convert)(),
                name=keras_contact.called_path(self),
                seed=self.seed_generator,
                observed=None if is_drawn else False,
            )
        keras_contact.attach_mask(output, mask)
        return output

    @property
    def losses(self):
        """The penalties of all members, each divided by the number of members."""
        carried = keras_contact.carried_losses(self)
        if carried:
            return carried
        return [loss / self.size for member in self.members for loss in member.losses]

    # Training.

    def compile(
        self,
        optimizer="rmsprop",
        loss=None,
        loss_weights=None,
        metrics=None,
        weighted_metrics=None,
        run_eagerly=False,  # noqa: FBT002 (Keras' signature)
        steps_per_execution=1,
        jit_compile="auto",
        auto_scale_loss=True,  # noqa: FBT002
    ):
        """Configures the training of all members, as `keras.Model.compile`.

        Args:
            optimizer: An optimizer, of which each member gets a copy, or its name.
            loss: As in `keras.Model.compile`.
            loss_weights: As in `keras.Model.compile`.
            metrics: As in `keras.Model.compile`.
            weighted_metrics: As in `keras.Model.compile`.
            run_eagerly: As in `keras.Model.compile`.
            steps_per_execution: As in `keras.Model.compile`.
            jit_compile: As in `keras.Model.compile`.
            auto_scale_loss: As in `keras.Model.compile`.
        """
        common = {
            "loss": loss,
            "loss_weights": loss_weights,
            "run_eagerly": run_eagerly,
            "jit_compile": jit_compile,
        }
        optimizers = self._optimizers(keras.optimizers.get(optimizer))
        for member, own in zip(self.members, optimizers, strict=True):
            member.compile(
                own,
                metrics=_copied(metrics),
                weighted_metrics=_copied(weighted_metrics),
                auto_scale_loss=auto_scale_loss,
                **common,
            )
        optimizers = [member.optimizer for member in self.members]
        for member in self.members[1:]:
            skip_checks(member)  # The first stands for all.
        super().compile(
            None if optimizer is None else MemberOptimizers(optimizers),
            metrics=metrics,
            weighted_metrics=weighted_metrics,
            steps_per_execution=steps_per_execution,
            auto_scale_loss=False,
            **common,
        )

    def _optimizers(self, optimizer):
        """One for each member; none if the ensemble is only to be evaluated."""
        if optimizer is None:
            return [None] * self.size
        if isinstance(optimizer, MemberOptimizers):
            return optimizer.of_members
        return MemberOptimizers.like(optimizer, self.size).of_members

    def compile_from_config(self, config):
        """Compiles the model by what `get_compile_config` returned."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built and self.optimizer is not None:
            self.optimizer.build(self.trainable_variables)

    def make_train_function(self, force=False):  # noqa: FBT002 (Keras' signature)
        """Makes what `fit` runs."""
        if self.train_function is not None and not force:
            return self.train_function
        checks.check_alike(self.members)
        checks.check_undistributed()
        checks.warn_of_equal_starts(self.members)
        super().make_train_function(force=True)
        self.train_function = functools.partial(self._train, self.train_function)
        return self.train_function

    def _train(self, function, *arguments):
        result = function(*arguments)
        self._logs_of_members = True
        if self.frees_memory:
            # Not before: what fails should leave the members as they were.
            together.purge(self.members)
            self.frees_memory = False
        return result

    def train_step(self, *arguments):
        """Trains each member on one batch, and returns the means of what they log."""
        if backend.maps_models:
            logs, state = together.train_step(self.members, *arguments)
            logs = keras.tree.map_structure(lambda rows: ops.mean(rows, axis=0), logs)
            return logs, state
        return _means([member.train_step(*arguments) for member in self.members])

    def train_state(self):
        """Returns the state of training, stacked over members, on JAX."""
        return together.train_state(self.members)

    def set_train_state(self, state):
        """Takes the state of training, stacked over members, on JAX."""
        together.set_train_state(self.members, state)

    def compute_loss(
        self,
        x=None,
        y=None,
        y_pred=None,
        sample_weight=None,
        training=True,  # noqa: FBT002 (Keras' signature)
    ):
        """Returns the loss of the ensemble as one model, as `keras.Model`."""
        arguments = (x, y, y_pred, sample_weight)
        if keras_contact.in_symbolic_scope():
            # The state of losses is made here, before any program takes it along.
            for member in self.members:
                member.compute_loss(*arguments)
        return super().compute_loss(*arguments, training=training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Returns the metrics of the ensemble as one model, as `keras.Model`."""
        if keras_contact.in_symbolic_scope():
            for member in self.members:
                member.compute_metrics(x, y, y_pred, sample_weight)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    # Metrics: those of the members in training, those of the ensemble in evaluation.

    @property
    def metrics_variables(self):
        """The variables of the metrics, those of the members included."""
        variables = list(super().metrics_variables)
        for member in self.members:
            variables += member.metrics_variables
        return variables

    def reset_metrics(self):
        """Resets all metrics."""
        self._logs_of_members = False
        super().reset_metrics()
        for member in self.members:
            member.reset_metrics()

    def get_metrics_result(self):
        """Returns the means over members if these have been trained since the reset."""
        if self._logs_of_members:
            return _means([member.get_metrics_result() for member in self.members])
        return super().get_metrics_result()

    # Saving.

    def get_config(self):
        """Returns the members' configurations: the function that made them is gone."""
        members = [keras.saving.serialize_keras_object(m) for m in self.members]
        for member in members:
            member.pop("compile_config", None)
        return {**super().get_config(), "members": members, "convert": self.convert}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Makes an ensemble from what `get_config` returned."""
        config = dict(config)
        members = [
            keras.saving.deserialize_keras_object(member, custom_objects)
            for member in config.pop("members")
        ]
        made = iter(members)
        return cls(lambda: next(made), len(members), **config)


def _means(logs):
    """Means over members of dictionaries of metrics."""
    return keras.tree.map_structure(
        lambda *values: ops.mean(ops.stack(values), axis=0), *logs
    )


def _copied(metrics):
    """New metrics like those given: each member has its own."""
    return keras.tree.map_structure(
        lambda metric: (
            type(metric).from_config(metric.get_config())
            if isinstance(metric, keras.Metric)
            else metric
        ),
        metrics,
    )
