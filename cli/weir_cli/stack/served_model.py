"""The models that a local stack serves."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from weir_cli.errors import CommandError
from weir_cli.stack.default_model import fetch_default_model
from weir_cli.stack.model_source import find_model, model_folder
from weir_core.model_folder import ModelFileError, ModelFolder, models_home
from weir_worker.engine.config import NULL_MODEL
from weir_worker.engine.null_folder import ensure_null_model
from weir_worker.models.summary import summarize

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
        has_template: it has a chat template.
    """

    name: str
    aliases: tuple[str, ...]
    folder: Path
    max_context: int
    worker_model: str
    parameters: Mapping[str, float] = field(default_factory=dict)
    has_template: bool = True


async def choose_model(folder: Path | None, null: bool, say: Callable[[str], None]) -> ServedModel:
    """The model in `folder` (absolute), the null model, or the default one, fetched if needed.

    Raises CommandError when there is none.
    """
    (model,) = await choose_models([str(folder)] if folder else [], null, say)
    return model


async def choose_models(
    sources: Sequence[str], null: bool, say: Callable[[str], None], *, weights: bool = True
) -> list[ServedModel]:
    """What is served: each source (see `model_folder`), the null model, or the default one.

    All sources are looked at before any is converted.

    Args:
        sources, null: what the user asked for.
        say: gets lines about what takes long.
        weights: workers will read the folders' weights.

    Raises CommandError when one is not there or not sound, or two have one name.
    """
    if sources and null:
        raise CommandError("--model and --null exclude each other; give one")
    try:
        if null:
            return [_served(ensure_null_model(models_home() / NULL_MODEL), (), NULL_MODEL)]
        if sources:
            _check_folders([find_model(source) for source in sources], weights)
            folders = [await model_folder(source, say) for source in sources]
            return _distinct([_served(folder, (), str(folder)) for folder in folders])
        fetched = await fetch_default_model(say)
        default = _served(fetched, _DEFAULT_ALIASES, str(fetched))
        return [replace(default, parameters=_DEFAULT_PARAMETERS)]
    except ModelFileError as error:
        raise CommandError(f"{error.message}; give another --model FOLDER") from None


def _check_folders(found: Sequence[Path], weights: bool) -> None:
    folders = [path for path in found if path.is_dir()]
    _distinct([_served(folder, (), str(folder)) for folder in folders])
    if not weights:
        return
    for folder in folders:
        summary = summarize(folder)
        if summary.problem:
            raise CommandError(f"--model {folder}: {summary.problem}")
        if not summary.parameters:
            raise CommandError(f"--model {folder}: it has no weights (*.safetensors)")


def _served(folder: Path, aliases: tuple[str, ...], worker_model: str) -> ServedModel:
    model = ModelFolder(folder)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.name).strip("-._") or "model"
    return ServedModel(
        name,
        aliases,
        folder,
        model.max_context,
        worker_model,
        has_template=model.chat_template is not None,
    )


def _distinct(models: list[ServedModel]) -> list[ServedModel]:
    folders: dict[str, Path] = {}
    for model in models:
        if model.name in folders:
            raise CommandError(
                f"--model {model.folder} and --model {folders[model.name]} are both named "
                f"{model.name!r}, after their folders; rename one"
            )
        folders[model.name] = model.folder
    return models
