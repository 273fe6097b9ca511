import bayesian_layers  # noqa: F401, I001  Selects the backend before Keras is imported.
import hypothesis

# The same examples in each run, and none kept on disk: a failure is there for everyone.
hypothesis.settings.register_profile(
    "derandomized", derandomize=True, database=None, deadline=None, max_examples=20
)
hypothesis.settings.load_profile("derandomized")
