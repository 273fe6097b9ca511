"""Members as one program, where the backend maps it over them: on JAX."""

import functools

import keras
from keras import ops

from bayesian_layers import backend, keras_contact
from bayesian_layers.ensemble.mixing import mixable
from bayesian_layers.trace import drawn_when_read

# What `fit` trains and keeps of a model.
STATE = (
    lambda member: member.trainable_variables,
    lambda member: member.non_trainable_variables,
    lambda member: member.optimizer.variables,
    lambda member: member.metrics_variables,
)


def variables_in_training(members):
    """The variables of the state of each kind: one list for each of a member's."""
    return [
        [list(column) for column in zip(*map(kind, members), strict=True)]
        for kind in STATE
    ]


def train_state(members):
    """The states of members in training, as one of tensors `[members, ...]`."""
    variables = variables_in_training(members)
    return tuple(_compiled(_stack)(_map(lambda v: v.value, variables)))


def set_train_state(members, state):
    """Gives members their parts of a state of all."""
    state = list(map(list, state))  # JAX does not know the lists that Keras tracks.
    for i, member in enumerate(members):
        # One by one: compiled for all at once it would grow with their number.
        values = _compiled(_row)(state, i)
        for kind, of_kind in zip(STATE, values, strict=True):
            for variable, value in zip(kind(member), of_kind, strict=True):
                variable.assign(value)


def purge(members):
    """Frees the memory of the members' variables, until their state is set again."""
    _map(keras_contact.purge, variables_in_training(members))


def _map(function, structure):
    return keras.tree.map_structure(function, structure)


@functools.cache
def _compiled(function):
    return backend.compile_inference(function)


def _stack(kinds):
    return [[ops.stack(column) for column in columns] for columns in kinds]


def _row(state, i):
    return _map(lambda rows: rows[i], state)


def train_step(members, state, data):
    """Runs the train step of a member once, over the states of all.

    Returns:
        The logs, with members on the first axis, and the new state.
    """
    step = backend.vectorize(lambda state: members[0].train_step(state, data))
    return step(state)


def outputs(members, inputs, training):
    """Calls a member once, over the variables of all, and sets what the calls changed.

    Returns:
        The outputs, distributions or tensors with members on the first axis, and the
        masks of each.
    """
    first = members[0]
    columns = list(zip(*(member.variables for member in members), strict=True))
    changed = []

    def call(values):
        mapping = [(c[0], value) for c, value in zip(columns, values, strict=True)]
        scope = keras.StatelessScope(state_mapping=mapping, collect_losses=True)
        with scope, keras_contact.calling(first, training), drawn_when_read():
            found = first(inputs, training=training)
            results = _map(mixable, found)
        updates = [scope.get_current_value(column[0]) for column in columns]
        changed[:] = [
            column
            for column, old, new in zip(columns, values, updates, strict=True)
            if new is not old
        ]
        updates = [
            new for old, new in zip(values, updates, strict=True) if new is not old
        ]
        masks = _map(keras_contact.mask_of, found)
        return results, masks, updates, list(scope.losses)

    values = [ops.stack([v.value for v in column]) for column in columns]
    results, masks, updates, losses = backend.vectorize(call)(values)
    for column, rows in zip(changed, updates, strict=True):
        for variable, row in zip(column, ops.unstack(rows), strict=True):
            variable.assign(row)
    for loss in losses:
        first.add_loss(ops.sum(loss))
    return results, _map(_of_first, masks)


def _of_first(mask):
    return None if mask is None else mask[0]
