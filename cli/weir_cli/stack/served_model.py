"""The model that a local stack serves."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from weir_cli.errors import CommandError
from weir_cli.stack.default_model import fetch_default_model
from weir_core.model_folder import ModelFileError, ModelFolder, models_home
from weir_worker.engine.config import NULL_MODEL
from weir_worker.engine.null_folder import ensure_null_model

_DEFAULT_ALIASES = ("smollm2",)
# What its authors recommend: https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct
_DEFAULT_PARAMETERS = {"temperature": 0.2, "top_p": 0.9}


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What the directory says of a model and what its workers are started with.

    Attributes:
        name: public name.
        aliases: other names.
        folder: tokenizer, configuration and weights.
        max_context: tokens of prompt and answer.
        worker_model: the worker's setting `model`: the folder, or the null model.
        parameters: its `parameters` in the directory, by name; absent ones are built in.
    """

    name: str
    aliases: tuple[str, ...]
    folder: Path
    max_context: int
    worker_model: str
    parameters: Mapping[str, float] = field(default_factory=dict)


async def choose_model(folder: Path | None, null: bool, say: Callable[[str], None]) -> ServedModel:
    """The model in `folder` (absolute), the null model, or the default one, fetched if needed.

    Raises CommandError when there is none.
    """
    if folder and null:
        raise CommandError("--model and --null exclude each other; give one")
    try:
        if null:
            null_folder = ensure_null_model(models_home() / NULL_MODEL)
            return _served(null_folder, (), NULL_MODEL)
        if folder:
            return _served(folder, (), str(folder))
        fetched = await fetch_default_model(say)
        default = _served(fetched, _DEFAULT_ALIASES, str(fetched))
        return replace(default, parameters=_DEFAULT_PARAMETERS)
    except ModelFileError as error:
        raise CommandError(f"{error.message}; give another --model FOLDER") from None


def _served(folder: Path, aliases: tuple[str, ...], worker_model: str) -> ServedModel:
    model = ModelFolder(folder)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.name).strip("-._") or "model"
    return ServedModel(name, aliases, folder, model.max_context, worker_model)
