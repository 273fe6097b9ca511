"""One row for every distribution: how it is made, and what it is compared with."""

from tests.distributions import (
    rows_of_counts,
    rows_of_distributions,
    rows_of_numbers,
    rows_of_vectors,
)
from tests.distributions.rows import ROWS

__all__ = [
    "ROWS",
    "rows_of_counts",
    "rows_of_distributions",
    "rows_of_numbers",
    "rows_of_vectors",
]
