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
import os
import subprocess
import sys
import time

import numpy as np
from gaussian_process_steps import SIDES

CASES = ("sparse", "exact", "deep")
OURS = ("jax", "tensorflow", "torch")
LIBRARIES = ("gpflow", "gpytorch", "gpjax")
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def work(side):
    """Makes a step of each case whose name comes, and answers with time and loss.

    The answer is "none" if the side has no such case, or cannot be imported.
    """
    answers, sys.stdout = sys.stdout, sys.stderr
    steps = {}
    for line in sys.stdin:
        case = line.strip()
        if case not in steps:
            steps[case] = step_of(side, case)
        answer = "none"
        if steps[case] is not None:
            start = time.perf_counter()
            loss = float(steps[case]())
            answer = f"{1e3 * (time.perf_counter() - start)} {loss}"
        print(answer, file=answers, flush=True)


def step_of(side, case):
    try:
        return SIDES[side](case)
    except ModuleNotFoundError as error:
        if error.name != side:
            raise
        return None


class Side:
    """A process that makes one step of a case whenever it is asked to."""

    def __init__(self, name, python, errors):
        self.name = name
        backend = name if name in OURS else "jax"
        environment = {**os.environ, **ONE_THREAD, "KERAS_BACKEND": backend}
        self.process = subprocess.Popen(
            [python, __file__, "--worker", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            text=True,
        )

    def step(self, case):
        """The time in milliseconds and the loss of a step; `None` if there is none."""
        self.process.stdin.write(case + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(
                f"The side {self.name!r} failed in the case {case!r}; --verbose shows "
                "why."
            )
        return None if answer == "none\n" else tuple(map(float, answer.split()))


def measure(sides, case, repeats):
    """The median times of the sides, and their losses at the start."""
    first = {name: side.step(case) for name, side in sides.items()}
    running = {name: sides[name] for name, answer in first.items() if answer}
    times = {name: [] for name in running}
    for _ in range(repeats):
        for name, side in running.items():
            times[name].append(side.step(case)[0])
    medians = {name: float(np.median(values)) for name, values in times.items()}
    return medians, {name: first[name][1] for name in running}


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
        work(arguments.worker)
        return
    pythons = dict(entry.split("=", 1) for entry in arguments.python_of)
    unknown = set(pythons) - set(LIBRARIES)
    if unknown:
        parser.error(f"--python-of expects one of {LIBRARIES}. Received: {unknown}")
    if hasattr(os, "sched_setaffinity"):
        # One core for all sides, of which one runs at a time.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    errors = None if arguments.verbose else subprocess.DEVNULL
    names = arguments.side or SIDES
    sides = {
        name: Side(name, pythons.get(name, sys.executable), errors) for name in names
    }
    for case in arguments.case:
        print_case(case, *measure(sides, case, arguments.repeats))
    for side in sides.values():
        side.process.communicate()


if __name__ == "__main__":
    main()
