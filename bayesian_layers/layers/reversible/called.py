"""A reversible layer as it was when it was called, and what it makes of a variable."""

import contextlib

import keras
from keras import ops

from bayesian_layers import backend, handlers, keras_contact
from bayesian_layers.distributions import Transformed, constraints
from bayesian_layers.distributions.transforms import Map
from bayesian_layers.layers.reversible import protocol
from bayesian_layers.random_variable import RandomVariable
from bayesian_layers.random_weights import RandomWeights
from bayesian_layers.random_weights.kl import random_weights


class CalledLayer(Map):
    """A reversible layer as a map: with the context and the numbers of one call.

    The output of the layer is a random variable, of which densities may be asked when
    the call has ended. In Keras' `stateless_call`, that of `fit` on JAX, the weights
    have no numbers any more then: they are taken along. So are the draws of random
    weights, as one call of a layer is one function, and the value of `training`. It is
    a pytree of all these.
    """

    is_pytree = True

    def __init__(self, layer, ranks, context, training, values, draws):
        self.layer = layer
        self._ranks = ranks
        self.context = context
        self.training = training
        self.values = values
        self.draws = draws
        self._known = None

    @classmethod
    def of(cls, layer, shape, context):
        """Makes the map of a layer whose call, on this shape, is under way."""
        values = None
        if keras_contact.in_stateless_scope():
            values = [ops.convert_to_tensor(v.value) for v in layer.variables]
            for generator in protocol.seed_generators(layer):
                generator.next()  # The next call is not to see the noise of this one.
        ranks = protocol.ranks(layer, shape, context)
        return cls(layer, ranks, context, keras_contact.is_training(), values, {})

    event_rank = property(lambda self: self._ranks[0])
    output_rank = property(lambda self: self._ranks[1])
    domain = property(lambda self: getattr(self.layer, "domain", constraints.real))
    image = property(lambda self: getattr(self.layer, "image", constraints.real))
    # An AttributeError says that it is not monotone.
    increasing = property(lambda self: self.layer.increasing)

    def __call__(self, x):
        """Returns y."""
        return self._run(protocol.forward, x)

    def reverse(self, y):
        """Returns the x that is mapped to y."""
        return self._run(protocol.reverse, y)

    def forward_and_log_det(self, x):
        """Returns y and log |det dy / dx|."""
        return self._run(protocol.forward_and_log_det, x)

    def reverse_and_log_det(self, y):
        """Returns x and log |det dx / dy|."""
        return self._run(protocol.reverse_and_log_det, y)

    def _run(self, function, x):
        with contextlib.ExitStack() as stack:
            if self.values is not None:
                stack.enter_context(self._with_values())
            if self.draws:
                # Handlers further out saw them when they were drawn.
                stack.enter_context(handlers.block())
                stack.enter_context(handlers.condition(self.draws))
            stack.enter_context(keras_contact.calling(self.layer, self.training))
            return function(self.layer, x, self.context)

    @contextlib.contextmanager
    def _with_values(self):
        """Within the block, the variables have their values of the call.

        State that changes in it, as that of `bl.layers.ActNorm` at its first data, is
        changed in the scope around it, if there is one: `fit` on JAX computes its loss
        in one, and keeps it. Seeds have been moved on in the call.
        """
        pairs = list(zip(self.layer.variables, self.values, strict=True))
        with keras.StatelessScope(state_mapping=pairs) as scope:
            before = [scope.get_current_value(variable) for variable, _ in pairs]
            yield
        if not keras_contact.in_stateless_scope():
            return
        for (variable, _), value in zip(pairs, before, strict=True):
            after = scope.get_current_value(variable)
            if after is not value and not keras_contact.is_seed_state(variable):
                variable.assign(after)

    def remember(self, x):
        """Returns y, and keeps what leads back from it."""
        return self._remember(x, self._run)

    def record(self, x):
        """Returns y as the call that is under way has it, and keeps what it draws."""
        with _recorded(self.draws):
            return self._remember(x, lambda f, x: f(self.layer, x, self.context))

    def _remember(self, x, run):
        if not hasattr(self.layer, "log_det_jacobian"):
            return run(protocol.forward, x)
        y, log_det = run(protocol.forward_and_log_det, x)
        self._known = (y, x, log_det)
        return y

    def recall(self, y):
        """Returns x and log |det dy / dx| if `remember` has just made this y."""
        if self._known is None or self._known[0] is not y:
            return None
        return self._known[1:]

    def forward_shape(self, shape):
        """Returns the shape of y for an x of this shape."""
        return protocol.forward_shape(self.layer, shape)

    def reverse_shape(self, shape):
        """Returns the shape of x for a y of this shape."""
        return protocol.reverse_shape(self.layer, shape)

    def tensors(self):
        """The tensors that it holds: weights, context, draws."""
        values = self.values
        if values is None:
            values = [ops.convert_to_tensor(v.value) for v in self.layer.variables]
        return (tuple(values), self.context, tuple(self.draws.values()))

    def map_tensors(self, function):
        """The map with a function of each tensor that it holds."""
        tensors = self.tensors()
        mapped = keras.tree.map_structure(
            lambda tensor: None if tensor is None else function(tensor), tensors
        )
        pairs = zip(
            keras.tree.flatten(tensors), keras.tree.flatten(mapped), strict=True
        )
        if self.values is not None and all(old is new for old, new in pairs):
            return self  # With what it remembers.
        return self._with(mapped)

    def _with(self, tensors):
        values, context, draws = tensors
        return type(self)(
            self.layer,
            self._ranks,
            context,
            self.training,
            list(values),
            dict(zip(self.draws, draws, strict=True)),
        )


def _flatten(called):
    aux = (called.layer, called._ranks, called.training, tuple(called.draws))
    return called.tensors(), aux


def _unflatten(aux, leaves):
    layer, ranks, training, weights = aux
    values, context, draws = leaves
    draws = dict(zip(weights, draws, strict=True))
    return CalledLayer(layer, ranks, context, training, list(values), draws)


backend.register_pytree(CalledLayer, _flatten, _unflatten)


def transform(layers, variable, context, layer):
    """The random variable that layers, one after another, make of another one.

    Args:
        layers: Reversible layers, in the order in which they are applied.
        variable: A `RandomVariable`.
        context: A tensor, or `None`.
        layer: The layer whose call it is: the output has its name.
    """
    distribution, sample_shape = variable.distribution, variable._sample_shape
    calls, drawn = [], None
    for part in layers:
        # It may be a copy with draws in the place of its weights.
        original = _original(part)
        shape = distribution.shape(sample_shape)
        protocol.check_reversible(original)
        protocol.build(original, shape, _shape_of(context))
        given = context if protocol.takes_context(original) else None
        call = CalledLayer.of(original, shape, given)
        distribution, sample_shape = _with_rank(
            distribution, sample_shape, call.event_rank
        )
        if random_weights(original):
            drawn = variable.value if drawn is None else drawn
            call.draws.update(_own_draws(part))
            drawn = call.record(drawn)
        elif drawn is not None:
            drawn = call.remember(drawn)
        calls.append(call)
        distribution = Transformed(distribution, call)

    def value():
        x = variable.value
        for call in calls:
            x = call.remember(x)
        return x

    return RandomVariable(
        distribution,
        value=value if drawn is None else drawn,
        sample_shape=sample_shape,
        name=keras_contact.called_path(_original(layer)),
        observed=False,
        base=variable,
    )


def _shape_of(context):
    return None if context is None else context.shape


def _with_rank(distribution, sample_shape, rank):
    """Takes axes of draws for axes of the batch, if an event needs them."""
    missing = rank - len(distribution.shape())
    if missing <= 0 or missing > len(sample_shape):
        return distribution, sample_shape
    kept, taken = sample_shape[:-missing], sample_shape[-missing:]
    batch = (*taken, *distribution._dynamic_batch_shape())
    return distribution._broadcast_batch(batch), kept


def _original(layer):
    """The layer itself, of which `RandomWeights` calls a copy with draws."""
    if not getattr(layer, "_is_substituted", False):
        return layer
    return next(iter(layer.random_weights.values())).layer


def _own_draws(layer):
    """The draws in the place of the weights of a copy."""
    if not isinstance(layer, RandomWeights) or not layer._is_substituted:
        return {}
    weights = layer.random_weights.values()
    return {weight: vars(layer)[weight.attribute] for weight in weights}


@contextlib.contextmanager
def _recorded(draws):
    """Within the block, random weights that are drawn are kept, by the weight."""

    def handler(site):
        source = site["source"]
        if source in draws:
            return draws[source]
        value = handlers.hand_on(site)
        if source is not None:
            draws[source] = value
        return value

    def wants(name, source):
        return source is not None and not getattr(source, "only_held", False)

    with handlers.handle(handler, wants):
        yield
