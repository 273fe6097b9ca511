"""Random variables in Keras: tensors that know their distribution.

A straight line with unknown slope and noise, as a probabilistic program: draw from it,
use its variables as tensors, fix some of them, and score data under it.
"""

# Imported before keras, it selects JAX unless you have chosen a backend.
import bayesian_layers as bl

# isort: split
import keras
import numpy as np
from keras import ops

x = np.linspace(-1.0, 1.0, 5, dtype="float32")


def line():
    """A prior over straight lines, and the data they would give."""
    slope = bl.Normal(0.0, 2.0, name="slope", seed=1)
    intercept = bl.Normal(0.0, 1.0, name="intercept", seed=2)
    noise = bl.HalfNormal(0.5, name="noise", seed=3)
    return bl.Normal(slope * x + intercept, noise, name="y", seed=4)


def log_joint(tape):
    """log p(slope, intercept, noise, y) of a run of the program."""
    return sum(ops.sum(variable.log_prob(variable.value)) for variable in tape.values())


def main():
    """Runs the tour."""
    print(f"Keras {keras.__version__} on {keras.backend.backend()}\n")

    print("A random variable is a tensor, drawn when it is first read:")
    w = bl.Normal(0.0, 1.0, sample_shape=(3,), name="w", seed=1)
    print(" ", w)
    print("  2 * w + 1     =", ops.convert_to_numpy(2 * w + 1))
    print("  ops.mean(w)   =", float(ops.mean(w)))
    print("  w.log_prob(0) =", float(w.log_prob(0.0)))
    print(" ", w, "\n")

    print("A program of random variables, run under a tape:")
    with bl.tape() as tape:
        line()
    for variable in tape.values():
        print(" ", variable)
    print(f"  log joint = {float(log_joint(tape)):.3f}\n")

    print("The same program, given its slope and its data:")
    with bl.condition(slope=1.5, y=1.5 * x), bl.tape() as tape:
        line()
    for variable in tape.values():
        print(" ", variable)
    print(f"  log joint = {float(log_joint(tape)):.3f}\n")

    print("Divergences, where they have a closed form, and estimates where not:")
    q, p = bl.Normal(1.0, 0.5), bl.Normal(0.0, 1.0)
    print(f"  KL(Normal || Normal)  = {float(q.kl_divergence(p)):.4f}")
    estimate = q.kl_divergence(
        bl.StudentT(3.0, 0.0, 1.0), method="monte_carlo", num_samples=10_000, seed=1
    )
    print(f"  KL(Normal || StudentT) is about {float(estimate):.3f}")


if __name__ == "__main__":
    main()
