"""The default model, fetched in a process of its own."""

from collections.abc import Callable
from pathlib import Path

from weir_cli.errors import CommandError
from weir_cli.stack.model_process import model_process

_PREPARING = "Preparing the default model (93 MB to fetch the first time)"


async def fetch_default_model(say: Callable[[str], None]) -> Path:
    """The folder of the default model; says so when it has to be fetched and converted.

    Raises CommandError, in the words of the process that failed.
    """
    try:
        return await model_process([], "the default model", say, preparing=_PREPARING)
    except CommandError as error:
        raise CommandError(
            f"the default model cannot be fetched: {error}; or give --model FOLDER"
        ) from None
