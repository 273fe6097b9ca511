"""The optimizers of members, as one."""

import keras

from bayesian_layers import keras_contact


@keras.saving.register_keras_serializable("bayesian_layers.ensemble")
class MemberOptimizers(keras.optimizers.Optimizer):
    """Optimizers of the members of an ensemble: each updates the weights of one.

    No member knows of the others: norms of gradients, loss scales and moving averages
    are its own. What is set here, such as the learning rate, is set for all.

    Args:
        optimizers: A list of optimizers of one kind, one for each member.
        name: The name.

    Attributes:
        of_members: The optimizers.

    Example:
    >>> ensemble = bl.Ensemble(lambda: keras.Sequential([keras.layers.Dense(1)]), 3)
    >>> ensemble.compile("adam", "mse")
    >>> len(ensemble.optimizer.of_members)
    3
    >>> ensemble.optimizer.learning_rate = 0.1
    >>> [round(float(o.learning_rate), 4) for o in ensemble.optimizer.of_members]
    [0.1, 0.1, 0.1]
    """

    def __init__(self, optimizers, name="member_optimizers"):
        super().__init__(learning_rate=0.0, name=name)
        self.of_members = list(optimizers)

    @classmethod
    def like(cls, optimizer, size):
        """Makes so many copies of an optimizer, which itself is not used."""
        if optimizer.built:
            raise ValueError(
                "Expected an optimizer that was not used yet: each member gets a copy "
                f"of it. Received: {optimizer} with variables of a model."
            )
        return cls([keras_contact.copied_optimizer(optimizer) for _ in range(size)])

    def _chunks(self, values):
        """Splits a list of what belongs to all members into lists for each."""
        size, rest = divmod(len(values), len(self.of_members))
        if rest:
            raise ValueError(
                f"Expected as many for each of {len(self.of_members)} members. "
                f"Received: {len(values)} variables or gradients."
            )
        return [values[i * size : (i + 1) * size] for i in range(len(self.of_members))]

    def build(self, variables):
        """Makes the variables of all optimizers, for those of all members."""
        parts = zip(self.of_members, self._chunks(list(variables)), strict=True)
        for optimizer, part in parts:
            if not optimizer.built:
                optimizer.build(part)
        self.built = True

    @property
    def variables(self):
        """The variables of all optimizers, one after the other."""
        return [variable for o in self.of_members for variable in o.variables]

    def apply(self, grads, trainable_variables=None):
        """Updates the weights of all members."""
        parts = [None] * len(self.of_members)
        if trainable_variables is not None:
            parts = self._chunks(list(trainable_variables))
        grads = self._chunks(list(grads))
        for optimizer, part, grad in zip(self.of_members, parts, grads, strict=True):
            optimizer.apply(grad, part)
        self.built = True

    def stateless_apply(self, optimizer_variables, grads, trainable_variables):
        """Returns the updated weights of all members, and the state."""
        arguments = (optimizer_variables, grads, trainable_variables)
        updates = [
            optimizer.stateless_apply(*parts)
            for optimizer, *parts in zip(
                self.of_members,
                *(self._chunks(list(argument)) for argument in arguments),
                strict=True,
            )
        ]
        weights, variables = zip(*updates, strict=True)
        return sum(map(list, weights), []), sum(map(list, variables), [])

    def finalize_variable_values(self, var_list):
        """Sets weights to their moving averages, if optimizers keep these."""
        for optimizer, part in zip(
            self.of_members, self._chunks(list(var_list)), strict=True
        ):
            optimizer.finalize_variable_values(part)

    def exclude_from_weight_decay(self, var_list=None, var_names=None):
        """Excludes variables from weight decay, as in `keras.optimizers.Optimizer`."""
        for optimizer in self.of_members:
            optimizer.exclude_from_weight_decay(var_list, var_names)

    @property
    def learning_rate(self):
        """The learning rate: the same for all members."""
        return self.of_members[0].learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate):
        for optimizer in self.of_members:
            optimizer.learning_rate = learning_rate

    @property
    def iterations(self):
        """The number of steps: the same for all members."""
        return self.of_members[0].iterations

    # The variables are saved with the members, whose optimizers they are.

    def save_own_variables(self, store):
        """Saves nothing of its own."""

    def load_own_variables(self, store):
        """Loads nothing of its own."""

    def get_config(self):
        """Returns the constructor's arguments."""
        serialize = keras.saving.serialize_keras_object
        return {"optimizers": list(map(serialize, self.of_members)), "name": self.name}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Makes optimizers from what `get_config` returned."""
        optimizers = [
            keras.saving.deserialize_keras_object(optimizer, custom_objects)
            for optimizer in config["optimizers"]
        ]
        return cls(optimizers, name=config["name"])
