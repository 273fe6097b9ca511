"""A Bayesian LSTM reads Shakespeare: figure 1 of the Bayesian Layers paper.

The same cell runs under `keras.layers.RNN` and in a loop written by hand, and a
deterministic LSTM beside them. Each learns to predict the next character; at the end
stands the perplexity on text that none has seen.
"""

import argparse
import pathlib

# Imported before keras, it selects JAX unless you have chosen a backend.
import bayesian_layers as bl

# isort: split
import keras
import numpy as np
from keras import ops

TEXT = pathlib.Path(__file__).parent / "data" / "shakespeare.txt"


class LoopByHand(keras.Layer):
    """What `keras.layers.RNN(cell, return_sequences=True)` does.

    `get_initial_state` draws the weights, and each step of the sequence uses them.
    """

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def call(self, features):
        state = self.cell.get_initial_state(batch_size=ops.shape(features)[0])
        outputs = []
        for t in range(features.shape[1]):
            output, state = self.cell(features[:, t], state)
            outputs.append(output)
        return ops.stack(outputs, axis=1)


def read(length, num_characters):
    """Windows of the text as integers, and the number of different characters."""
    text = TEXT.read_text()[:num_characters]
    characters = sorted(set(text))
    numbers = np.array([characters.index(c) for c in text], "int32")
    count = (len(numbers) - 1) // length
    x = numbers[: count * length].reshape(count, length)
    y = numbers[1 : count * length + 1].reshape(count, length)
    split = int(0.9 * count)
    return (x[:split], y[:split]), (x[split:], y[split:]), len(characters)


def network(recurrence, length, vocabulary):
    """A network that gives logits of the next character at each position."""
    inputs = keras.Input((length,), dtype="int32")
    features = keras.layers.Embedding(vocabulary, 32)(inputs)
    return keras.Model(inputs, keras.layers.Dense(vocabulary)(recurrence(features)))


def negative_log_likelihood(model, x, y, num_draws):
    """The mean over characters, of probabilities averaged over draws."""
    prediction = bl.predict(
        model,
        x,
        num_draws,
        batch_size=256,
        from_logits=True,
        store_samples=False,
        verbose=0,
    )
    chosen = np.take_along_axis(prediction.probs, y[..., None], axis=-1)
    return -np.mean(np.log(chosen))


def main(epochs=20, units=64, length=40, num_draws=20, num_characters=10**9):
    """Trains the three networks and compares them."""
    keras.utils.set_random_seed(0)
    (x, y), (x_test, y_test), vocabulary = read(length, num_characters)
    print(f"{x.size} characters to learn from, {x_test.size} held out")
    recurrences = {
        "deterministic": keras.layers.RNN(
            keras.layers.LSTMCell(units), return_sequences=True
        ),
        "Bayesian": keras.layers.RNN(
            bl.layers.LSTMCellFlipout(units), return_sequences=True
        ),
        "Bayesian, loop by hand": LoopByHand(
            bl.layers.LSTMCellReparameterization(units)
        ),
    }
    rows = []
    for name, recurrence in recurrences.items():
        print(f"\n{name}")
        model = network(recurrence, length, vocabulary)
        kl = 0.0
        is_bayesian = name != "deterministic"
        if is_bayesian:
            # The loss averages over characters, so it is them that are counted.
            bl.scale_kl(model, dataset_size=x.size)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(5e-3), loss)
        model.fit(x, y, batch_size=32, epochs=epochs)
        if is_bayesian:
            kl = float(ops.convert_to_numpy(bl.total_kl(model)))
        draws = num_draws if is_bayesian else 1
        rows.append((name, negative_log_likelihood(model, x_test, y_test, draws), kl))
    print(f"\n{'held out':24}{'NLL':>8}{'perplexity':>12}{'KL in nats':>12}")
    for name, nll, kl in rows:
        print(f"{name:24}{nll:8.3f}{np.exp(nll):12.2f}{kl:12.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--length", type=int, default=40)
    parser.add_argument("--num_draws", type=int, default=20)
    main(**vars(parser.parse_args()))
