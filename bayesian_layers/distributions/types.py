"""The types in the signatures of distributions."""

from collections.abc import Sequence
from typing import Any

import keras

Tensor = Any  # A tensor of the backend.
TensorLike = Any  # What `keras.ops.convert_to_tensor` takes.
SampleShape = int | Sequence[int]
Shape = tuple[int | None, ...]
Seed = int | keras.random.SeedGenerator | None
