import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402


@pytest.fixture(autouse=True)
def no_figures():
    assert not plt.get_fignums()
    yield
    plt.close("all")
