"""The default model for tests marked `model`."""

from functools import cache
from pathlib import Path

import pytest

from weir_core.model_folder import ModelFileError
from weir_worker.models.fetch import ensure_default_model


@cache
def default_model_folder() -> Path:
    """Its folder, fetched on first use; skips the test where that is not possible."""
    try:
        return ensure_default_model()
    except ModelFileError as error:
        pytest.skip(f"no default model: {error.message}")
