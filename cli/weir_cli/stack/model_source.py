"""What `--model` may name: a folder, a GGUF file, or a model that `weir models ls` shows."""

from collections.abc import Callable
from pathlib import Path

from weir_cli.errors import CommandError
from weir_cli.stack.model_process import model_process
from weir_core.model_folder import models_home
from weir_worker.models.packaged_model import PACKAGED_MODELS


async def model_folder(source: str, say: Callable[[str], None]) -> Path:
    """The absolute path of the model's folder; a GGUF file is converted into the cache.

    Raises CommandError when there is no such thing, or it cannot be converted.
    """
    found = find_model(source)
    if found.is_dir():
        return found
    return await model_process([str(found)], found.name, say)


def find_model(source: str) -> Path:
    """The folder or file that is meant, absolute. Raises CommandError when there is none."""
    path, kept = Path(source).expanduser(), models_home() / _name(source)
    if path.exists():
        return path.resolve()
    if Path(source).name == source and kept.is_dir():
        return kept
    raise CommandError(
        f"{source}: no folder, no GGUF file, and no model of that name in "
        f"{models_home()}; `weir models ls` lists those, `weir models pull` adds one"
    )


def _name(source: str) -> str:
    """The name of the folder of a packaged model, where `source` is an alias of it."""
    names = (model.name for model in PACKAGED_MODELS if source in model.aliases)
    return next(names, source)
