"""A directory file that the user brought for a local stack."""

from collections.abc import Iterable
from pathlib import Path

from weir_cli.errors import CommandError
from weir_gateway.directory.document import ModelEntry
from weir_gateway.directory.file import DirectoryFileError, read_document


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


def versions_without_worker(path: Path, models: Iterable[str], served: str) -> list[str]:
    """A line for each version that requests are drawn to and of which no worker is started.

    Args:
        path: a directory file that is good.
        models: that are served.
        served: the version of the workers that are started.
    """
    entries = {entry.name: entry for entry in read_document(path).models}
    return [
        f"model {name!r}: version {entry.version} has weight {entry.weight} and no worker here: "
        f"{_without_worker(entries[name])}; docs/placement.md tells how to start one"
        for name in models
        for entry in entries[name].versions
        if entry.weight and entry.version != served
    ]


def _without_worker(model: ModelEntry) -> str:
    if model.version_fallback == "none":
        return "its requests wait, and end with NO_WORKER"
    return "its requests fall back to a version that has one"
