"""Train steps of Gaussian processes, against steps by hand and against libraries.

- sparse: 512 inducing points, a batch of 1,024 of 10,000 examples;
- exact: the log marginal likelihood of 2,000 examples, and its gradient;
- deep: two layers of 128 inducing points, eight functions inside, a batch of 1,024.

Inputs have 8 dimensions, each with a lengthscale of its own; all parameters are
trained, by Adam, in float32 on one core. Every side runs in a process of its own, and
they take their steps in turns. A library runs if it can be imported, here or by the
interpreter that is given for it:

    python benchmarks/gaussian_process.py --python-of gpytorch=venv/bin/python
"""

import argparse

import numpy as np
import sides as turns
from gaussian_process_steps import SIDES
from sides import OURS

CASES = ("sparse", "exact", "deep")
LIBRARIES = ("gpflow", "gpytorch", "gpjax")


def print_case(case, medians, losses):
    print(f"{case:22}{'median':>10}{'to by hand':>12}{'first loss':>12}")
    for name, median in medians.items():
        label = f"ours, {name}" if name in OURS else name
        ratio = median / medians["by hand"] if "by hand" in medians else np.nan
        print(f"  {label:20}{median:7.1f} ms{ratio:12.2f}{losses[name]:12.4f}")
    ours = [median for name, median in medians.items() if name in OURS]
    others = [median for name, median in medians.items() if name in LIBRARIES]
    if ours and others:
        ratio = min(ours) / min(others)
        print(f"  the fastest of ours to the fastest library: {ratio:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", nargs="*", choices=CASES, default=CASES)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--python-of", nargs="*", default=[], metavar="LIBRARY=PATH")
    parser.add_argument("--side", nargs="*", choices=SIDES, help="only these")
    parser.add_argument("--verbose", action="store_true", help="show all messages")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        turns.serve(SIDES[arguments.worker], arguments.worker)
        return
    sides = turns.start(
        arguments.side or list(SIDES),
        __file__,
        arguments.python_of,
        verbose=arguments.verbose,
    )
    for case in arguments.case:
        print_case(case, *turns.measure(sides, case, arguments.repeats))
    turns.stop(sides)


if __name__ == "__main__":
    main()
