"""The weights of one draw: where prediction meets the mechanism of random weights."""

from keras import ops

from bayesian_layers.held_weights import hold, hold_at, weight_keys
from bayesian_layers.kl import has_random_weights, random_weights
from bayesian_layers.layers.outputs.output_layer import OutputLayer
from bayesian_layers.layers.receiving import ReceivesRandomVariables
from bayesian_layers.layers.weights.defaults import RandomDefaults
from bayesian_layers.layers.weights.sequence import Replay
from bayesian_layers.trace import drawn_when_read, is_tracing

__all__ = [
    "RANDOM_LAYERS",
    "count_weights",
    "draw_weights",
    "drawn_when_read",
    "hold_at",
    "is_tracing",
    "seed_state",
]

# The layers whose results differ from draw to draw.
RANDOM_LAYERS = (RandomDefaults, OutputLayer, ReceivesRandomVariables)


def count_weights(model):
    """Returns the number of random weights of a model."""
    return len(random_weights(model)) if has_random_weights(model) else 0


def draw_weights(model, seeds, dtype):
    """Draws the random weights of a model.

    Args:
        model: A built model.
        seeds: Integers, a tensor `[weights]`: one for each weight, by its position in
            the model.
        dtype: The dtype of the states of seed generators.

    Returns:
        A dictionary from weights to values.
    """
    if not has_random_weights(model):
        return {}
    positions = {key: i for i, key in enumerate(weight_keys(model).values())}

    def change(site, key):
        return {"seed": Replay(seed_state(seeds[positions[key]], dtype), 0)}

    with hold(model, change):
        return {weight: weight.draw() for weight in random_weights(model)}


def seed_state(seed, dtype):
    """Returns the state of a seed generator, from one integer."""
    return ops.cast(ops.stack([seed, ops.zeros_like(seed)]), dtype)
