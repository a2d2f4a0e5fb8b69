"""A directory file that the user brought for a local stack."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from weir_cli.errors import CommandError
from weir_cli.stack.served_model import ServedModel
from weir_cli.stack.worker_plan import VERSION, Versions
from weir_core.model_folder import ModelFileError
from weir_gateway.directory.document import ModelEntry, VersionEntry
from weir_gateway.directory.file import DirectoryFileError, read_document
from weir_worker.engine.config import NULL_MODEL
from weir_worker.models.summary import summarize


def own_versions(
    path: Path, models: Sequence[ServedModel], warn: Callable[[str], None], *, several: bool
) -> Versions | None:
    """The versions that workers are started of; None for version 1 alone.

    Args:
        path: the file.
        models: that are served.
        warn: gets a line for each model and version that will have no worker.
        several: workers of more than one version can be started.

    Raises CommandError when the file is bad, or does not go with the models.
    """
    names = [model.name for model in models]
    check_own_directory(path, names)
    versions = versions_to_serve(path, models) if several else None
    for line in (
        *models_without_worker(path, names),
        *versions_without_worker(path, names, versions or {}),
    ):
        warn(line)
    return versions


def check_own_directory(path: Path, models: Iterable[str]) -> None:
    """Raises CommandError when the file is bad or does not name the models that are served."""
    try:
        document = read_document(path)
    except DirectoryFileError as error:
        raise CommandError(f"{error}; correct it, or give another --directory") from None
    names = [entry.name for entry in document.models]
    for model in models:
        if model not in names:
            has = ", ".join(names) or "none"
            raise CommandError(
                f"{path}: models: {model!r}, which is to be served, is not there (there: {has}); "
                "add it, or serve another with --model FOLDER or --null"
            )


def versions_to_serve(path: Path, models: Iterable[ServedModel]) -> Versions:
    """The versions that requests are drawn to, and version 1 where the model has it.

    Args:
        path: a directory file that is good.
        models: that are served; version 1 of each is the one that was given.

    Raises CommandError for a folder of another version that has no weights.
    """
    entries = {entry.name: entry for entry in read_document(path).models}
    found: dict[str, dict[str, str]] = {}
    for model in models:
        mine = found[model.name] = {}
        for entry in entries[model.name].versions:
            if entry.version == VERSION:
                mine[VERSION] = model.worker_model
            elif entry.weight and model.worker_model == NULL_MODEL:
                mine[entry.version] = NULL_MODEL
            elif entry.weight:
                _check_weights(path, model.name, entry)
                mine[entry.version] = entry.folder
    return found


def _check_weights(path: Path, model: str, entry: VersionEntry) -> None:
    try:
        summary = summarize(Path(entry.folder))
        problem = summary.problem or ("" if summary.parameters else "it has no weights")
    except ModelFileError as error:
        problem = error.message
    if problem:
        raise CommandError(
            f"{path}: version {entry.version} of model {model!r} cannot be served: {problem}; "
            "correct its folder, or set its weight to 0"
        )


def models_without_worker(path: Path, served: Iterable[str]) -> list[str]:
    """A line for each model of a good directory file that is not among those that are served."""
    return [
        f"model {entry.name!r} has no worker here: its requests wait, and end with NO_WORKER; "
        "name its folder with --model too, or start a worker of it"
        for entry in read_document(path).models
        if entry.name not in set(served)
    ]


def versions_without_worker(
    path: Path, models: Iterable[str], served: Mapping[str, Collection[str]]
) -> list[str]:
    """A line for each version that requests are drawn to and of which no worker is started.

    Args:
        path: a directory file that is good.
        models: that are served.
        served: the versions of each that workers are started of; absent: version 1.
    """
    entries = {entry.name: entry for entry in read_document(path).models}
    return [
        f"model {name!r}: version {entry.version} has weight {entry.weight} and no worker here: "
        f"{_without_worker(entries[name])}; docs/placement.md tells how to start one"
        for name in models
        for entry in entries[name].versions
        if entry.weight and entry.version not in served.get(name, (VERSION,))
    ]


def _without_worker(model: ModelEntry) -> str:
    if model.version_fallback == "none":
        return "its requests wait, and end with NO_WORKER"
    return "its requests fall back to a version that has one"
