"""The weights of one draw: where prediction meets the mechanism of random weights."""

from keras import ops

from bayesian_layers.layers.receiving import ReceivesRandomVariables
from bayesian_layers.layers.returning import ReturnsRandomVariables
from bayesian_layers.layers.weights.composite import Composite
from bayesian_layers.random_weights import RandomWeights
from bayesian_layers.random_weights.held import hold
from bayesian_layers.random_weights.kl import random_weights
from bayesian_layers.seeds import Replay

# The layers whose results differ from draw to draw.
RANDOM_LAYERS = (
    RandomWeights,
    Composite,
    ReturnsRandomVariables,
    ReceivesRandomVariables,
)


def draw_weights(model, seeds, dtype, known=()):
    """Draws the random weights of a model.

    Args:
        model: A built model.
        seeds: Integers, a tensor `[weights]`: one for each weight, by its position in
            the model; for the member of an ensemble its number.
        dtype: The dtype of the states of seed generators.
        known: Weights that need not be drawn.

    Returns:
        A dictionary from weights to values.
    """

    def change(site, position):
        if hasattr(site["source"], "of_index"):
            return {"value": site["source"].of_index(seeds[position])}
        return {"seed": Replay(seed_state(seeds[position], dtype))}

    with hold(model, change):
        weights = random_weights(model)
        return {weight: weight.draw() for weight in weights if weight not in known}


def numbered(model):
    """Returns the positions of the weights that have a number instead of a seed."""
    weights = enumerate(random_weights(model))
    return [i for i, weight in weights if hasattr(weight, "of_index")]


def seed_state(seed, dtype):
    """Returns the state of a seed generator, from one integer."""
    return ops.cast(ops.stack([seed, ops.zeros_like(seed)]), dtype)
