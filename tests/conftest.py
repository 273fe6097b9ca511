import os

# Most of the time of the tests on JAX is compilation, and it need not optimize. An XLA
# that has dropped one of these flags says which.
if os.environ.get("KERAS_BACKEND", "jax") == "jax":
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
        "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
    )

# Some machines advertise AMX without granting it: oneDNN then dies of an illegal
# instruction in products of bfloat16.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import bayesian_layers  # noqa: E402, F401, I001  Selects the backend before Keras does.
import hypothesis  # noqa: E402
import keras  # noqa: E402
import pytest  # noqa: E402

# The same examples in each run, and none kept on disk: a failure is there for everyone.
hypothesis.settings.register_profile(
    "derandomized", derandomize=True, database=None, deadline=None, max_examples=20
)
hypothesis.settings.load_profile("derandomized")


# What a test draws depends neither on the process nor on the tests before it. The hook
# is for fixtures of modules, made with the first test that asks for them; the fixture
# is for the tests, whether or not one of those was made just now.
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    keras.utils.set_random_seed(0)


@pytest.fixture(autouse=True)
def fixed_seed():
    keras.utils.set_random_seed(0)
