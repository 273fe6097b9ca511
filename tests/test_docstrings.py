"""Every example in a docstring or in the README runs, on every backend."""

import doctest
import importlib
import inspect
import pathlib
import pkgutil
import re

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl

# PyTorch says this once for each process, wherever an example reads a number.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Converting a tensor with requires_grad=True to a scalar:UserWarning"
)

ROOT = pathlib.Path(__file__).parent.parent
NAMESPACE = {"bl": bl, "keras": keras, "np": np, "ops": ops}


def modules():
    names = [
        module.name
        for module in pkgutil.walk_packages(bl.__path__, f"{bl.__name__}.")
        if not module.name.startswith("bayesian_layers.backend.")
    ]
    return [bl, *map(importlib.import_module, names)]


EXAMPLES = {
    test.name: test
    for module in modules()
    for test in doctest.DocTestFinder().find(module, extraglobs=dict(NAMESPACE))
    if test.examples
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_docstring_example_runs(name):
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(EXAMPLES[name], out=report.append)
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/*.md")), ids=str
)
def test_python_blocks_of_a_page_run(path):
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)
    namespace = {}
    for block in blocks:
        exec(compile(block, path.name, "exec"), namespace)


def public_objects():
    distributions = (bl.distributions, bl.distributions.transforms)
    after = (bl.metrics, bl.calibrate, bl.plots)
    for namespace in (bl, bl.covariances, *distributions, bl.layers, *after):
        for name in getattr(namespace, "__all__", vars(namespace)):
            value = getattr(namespace, name)
            if (inspect.isclass(value) or inspect.isfunction(value)) and (
                value.__module__.startswith("bayesian_layers")
            ):
                yield f"{namespace.__name__}.{name}", value


PUBLIC = dict(public_objects())


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_has_a_docstring(name):
    value = PUBLIC[name]
    assert len(inspect.getdoc(value) or "") > 20
    if inspect.isclass(value) and value.__init__ is not object.__init__:
        for argument in inspect.signature(value).parameters.values():
            documentation = " ".join(inspect.getdoc(value).split())
            if argument.kind is argument.POSITIONAL_OR_KEYWORD:
                told = f"{argument.name}:" in documentation
                # Our layers take the arguments of a Keras layer.
                assert (
                    told
                    or "rguments as in" in documentation
                    or ("As in `keras.layers." in documentation)
                )
