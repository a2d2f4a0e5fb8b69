"""Where the peers lie. Only the standard library: their own environments import this too."""

import os
from pathlib import Path

_DEFAULT = "~/.cache/tokenweir/peers"


def peers_home() -> Path:
    """`$PEERS`, or the cache of this user."""
    return Path(os.environ.get("PEERS") or _DEFAULT).expanduser().resolve()


def environment(name: str) -> Path:
    """The virtual environment of a peer."""
    return peers_home() / name


def interpreter(name: str) -> Path:
    """Its Python."""
    return environment(name) / "bin" / "python"


def stamp(name: str) -> Path:
    """Written last, with what was installed."""
    return environment(name) / ".installed"


def model_files(name: str) -> Path:
    """A form of the model: `gguf`, `f32` (Hugging Face) or `openvino-int8`."""
    return peers_home() / "models" / name


def gguf_file() -> Path:
    """The model as it was published."""
    return model_files("gguf") / "SmolLM2-135M-Instruct.Q4_1.gguf"


def is_installed(name: str) -> bool:
    """Whether a peer was installed to its end."""
    return stamp(name).is_file()
