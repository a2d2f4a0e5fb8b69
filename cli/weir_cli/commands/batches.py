"""`weir batches`: OpenAI batches of a running gateway, from files and into files."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from weir_cli.directory_text import Format, Printed, print_forms
from weir_cli.errors import CommandError
from weir_cli.http_door import HERE, Ca, HttpDoor, Key, Url

_COLUMNS = ("id", "status", "model", "endpoint", "total", "completed", "failed", "created")
_ENDS = frozenset({"completed", "failed", "expired", "cancelled"})
_LOOK_S = 2.0
_PAGE = 100

app = typer.Typer(
    help="Run files of requests offline: create, get, cancel, list, download.",
    no_args_is_help=True,
)
BatchId = Annotated[str, typer.Argument(metavar="ID", help="Of the batch.")]


@app.command()
def create(
    file: Annotated[Path, typer.Argument(dir_okay=False, help="JSONL, a request a line.")],
    endpoint: Annotated[str, typer.Option(help="That the lines name.")] = "/v1/chat/completions",
    webhook_url: Annotated[str, typer.Option(help="Called when the batch has ended.")] = "",
    wait: Annotated[
        bool, typer.Option(help="Return when the batch has ended; fail unless it is completed.")
    ] = False,
    output: Printed = Format.TABLE,
    url: Url = HERE,
    key: Key = "",
    ca: Ca = None,
) -> None:
    """Upload a file and run it."""
    with _door(url, key, ca) as door:
        uploaded = door.upload(file, "batch")
        batch = door.post(
            "/v1/batches",
            {
                "input_file_id": uploaded["id"],
                "endpoint": endpoint,
                "completion_window": "24h",
                "webhook_url": webhook_url or None,
            },
        )
        while wait and batch["status"] not in _ENDS:
            time.sleep(_LOOK_S)
            batch = door.get(f"/v1/batches/{batch['id']}")
    _print(batch, output)
    if wait and batch["status"] != "completed":
        raise typer.Exit(1)


@app.command()
def get(
    batch_id: BatchId,
    output: Printed = Format.TABLE,
    url: Url = HERE,
    key: Key = "",
    ca: Ca = None,
) -> None:
    """Show where a batch is, and what was wrong with its file."""
    with _door(url, key, ca) as door:
        batch = door.get(f"/v1/batches/{batch_id}")
    _print(batch, output)


@app.command()
def cancel(
    batch_id: BatchId,
    output: Printed = Format.TABLE,
    url: Url = HERE,
    key: Key = "",
    ca: Ca = None,
) -> None:
    """End a batch; what was done is kept and charged."""
    with _door(url, key, ca) as door:
        batch = door.post(f"/v1/batches/{batch_id}/cancel")
    _print(batch, output)


@app.command("list")
def ls(
    most: Annotated[int, typer.Option("--most", min=1, help="Batches to show.")] = 20,
    output: Printed = Format.TABLE,
    url: Url = HERE,
    key: Key = "",
    ca: Ca = None,
) -> None:
    """List batches, newest first."""
    found: list[Any] = []
    with _door(url, key, ca) as door:
        more = True
        while more and len(found) < most:
            after = {"after": found[-1]["id"]} if found else {}
            page = door.get("/v1/batches", limit=min(_PAGE, most - len(found)), **after)
            found += page["data"]
            more = page["has_more"]
    if output is Format.TABLE:
        found = [_row(batch) for batch in found]
    print_forms(found, output, _COLUMNS)


@app.command()
def download(
    batch_id: BatchId,
    to: Annotated[
        Path | None, typer.Option("--to", dir_okay=False, help="File to write; none: stdout.")
    ] = None,
    errors: Annotated[bool, typer.Option(help="The lines that failed, not those that did not.")] = (
        False
    ),
    url: Url = HERE,
    key: Key = "",
    ca: Ca = None,
) -> None:
    """Write the lines that a batch has come to."""
    with _door(url, key, ca) as door:
        batch = door.get(f"/v1/batches/{batch_id}")
        file_id = batch["error_file_id" if errors else "output_file_id"]
        if file_id is None:
            raise CommandError(_why_nothing(batch, errors=errors))
        _write(door.download(f"/v1/files/{file_id}/content"), to)


@contextmanager
def _door(url: str, key: str, ca: Path | None) -> Iterator[HttpDoor]:
    door = HttpDoor(url, key, ca)
    try:
        yield door
    finally:
        door.close()


def _print(batch: Any, output: Format) -> None:
    if output is not Format.TABLE:
        print_forms(batch, output, _COLUMNS)
        return
    print_forms(_row(batch), output, _COLUMNS)
    for error in (batch["errors"] or {"data": []})["data"]:
        where = f"line {error['line']}: " if error["line"] else ""
        print(f"{where}{error['code']}: {error['message']}")


def _row(batch: Any) -> dict[str, Any]:
    counts = {name: str(count) for name, count in batch["request_counts"].items()}
    created = datetime.fromtimestamp(batch["created_at"], UTC)
    return {**batch, **counts, "created": f"{created:%Y-%m-%dT%H:%M:%SZ}"}


def _write(parts: Iterator[bytes], to: Path | None) -> None:
    """Into a file that is there whole or not at all."""
    if to is None:
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
        return
    unfinished = to.with_name(f"{to.name}.part")
    try:
        with unfinished.open("wb") as file:
            for part in parts:
                file.write(part)
        unfinished.replace(to)
    except OSError as error:
        raise CommandError(f"{to}: {error.strerror}") from None
    finally:
        unfinished.unlink(missing_ok=True)


def _why_nothing(batch: Any, *, errors: bool) -> str:
    if batch["status"] not in _ENDS:
        return f"the batch is {batch['status']}: its files are there when it has ended"
    return f"the batch is {batch['status']} and has no {'error' if errors else 'output'} file"
