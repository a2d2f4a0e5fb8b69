"""A directory file that the user brought for a local stack."""

from collections.abc import Iterable
from pathlib import Path

from weir_cli.errors import CommandError
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
