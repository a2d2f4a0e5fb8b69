"""Fetches the default model, compiles the kernels and keeps its 8-bit weights, once a machine.

Before the tests, not in the first that needs them: there several would wait for it at once, on
cores that other tests use, within the time of one test.
"""

from weir_core.errors import WeirError
from weir_core.model_folder import ModelFileError
from weir_worker.engine.config import EngineConfig
from weir_worker.engine.factory import build_engine
from weir_worker.models.fetch import ensure_default_model


def main() -> None:
    """Says why where that is not possible; the tests that need it say so again."""
    try:
        build_engine(EngineConfig(model=str(ensure_default_model()), num_blocks=64))
    except (ModelFileError, WeirError) as error:
        print(f"no default model: {error.message}")


if __name__ == "__main__":
    main()
