"""Sides of a benchmark: each in a process of its own, taking their steps in turns.

A script calls `serve(sides)` in its workers, and `measure` with a `Side` for each.
"""

import os
import subprocess
import sys
import time

import numpy as np

OURS = ("jax", "tensorflow", "torch")
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def serve(make_step, library):
    """Makes a step of each case whose name comes, and answers with time and loss.

    The answer is "none" if the side has no such case, or cannot be imported.

    Args:
        make_step: A function from the name of a case to a function that makes one step
            and returns its loss, or to `None` if there is no such case.
        library: The name of the module that may be missing.
    """
    answers, sys.stdout = sys.stdout, sys.stderr
    steps = {}
    for line in sys.stdin:
        case = line.strip()
        if case not in steps:
            steps[case] = _step_of(make_step, library, case)
        answer = "none"
        if steps[case] is not None:
            start = time.perf_counter()
            loss = float(steps[case]())
            answer = f"{1e3 * (time.perf_counter() - start)} {loss}"
        print(answer, file=answers, flush=True)


def _step_of(make_step, library, case):
    try:
        return make_step(case)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        return None


class Side:
    """A process that makes one step of a case whenever it is asked to.

    Args:
        name: The name of the side: a backend, if it is ours.
        script: The script that serves it, as `script --worker name`.
        python: The interpreter.
        errors: Where messages go, as in `subprocess.Popen`.
    """

    def __init__(self, name, script, python, errors):
        self.name = name
        backend = name if name in OURS else "jax"
        environment = {**os.environ, **ONE_THREAD, "KERAS_BACKEND": backend}
        self.process = subprocess.Popen(
            [python, script, "--worker", name],
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


def start(names, script, python_of, *, verbose):
    """Starts sides, all on one core, of which one runs at a time.

    Args:
        names: The names of the sides.
        script: The script that serves them.
        python_of: A list of `"name=path"`: interpreters of some of them.
        verbose: Whether to show all messages.
    """
    pythons = dict(entry.split("=", 1) for entry in python_of)
    unknown = set(pythons) - set(names)
    if unknown:
        raise ValueError(f"--python-of expects some of {names}. Received: {unknown}")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    errors = None if verbose else subprocess.DEVNULL
    return {
        name: Side(name, script, pythons.get(name, sys.executable), errors)
        for name in names
    }


def stop(sides):
    """Ends the processes of sides."""
    for side in sides.values():
        side.process.communicate()
