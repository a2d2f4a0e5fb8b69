"""llama-cpp-python's own server, with models loaded as `model_params` says: same arguments."""

from importlib import import_module
from typing import Any

from bench.peers.llamacpp_params import model_params


class _Library:
    """The C interface as it was before `main` changed it."""

    def __init__(self, library: Any) -> None:
        self.llama_model_default_params = library.llama_model_default_params


def main() -> None:
    library: Any = import_module("llama_cpp.llama_cpp")
    original = _Library(library)
    library.llama_model_default_params = lambda: model_params(original)
    import_module("llama_cpp.server.__main__").main()


if __name__ == "__main__":
    main()
