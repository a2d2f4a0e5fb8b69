"""What `weir ledger` does with the database itself: back-up, restore, verify."""

from pathlib import Path
from typing import Annotated

import typer
import yaml

from weir_cli.errors import CommandError
from weir_cli.stack.running import running_folder
from weir_cli.stack.services import RATELIMITER

_SHOWN = 20

Url = Annotated[
    str,
    typer.Option(
        envvar="WEIR_RATELIMITER__LEDGER_URL",
        show_default=False,
        help="Database, as the ratelimiter's ledger_url; default: that of a `weir up`.",
    ),
]
StateDirOption = Annotated[
    Path | None,
    typer.Option(
        envvar="WEIR_STATE_DIR", help="--state-dir of a `weir up`; default: the one that runs."
    ),
]


def backup(
    file: Annotated[Path, typer.Argument(help="File to write, such as ledger.jsonl.gz.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    url: Url = "",
    state_dir: StateDirOption = None,
) -> None:
    """Write one moment of the ledger to a file; work goes on meanwhile."""
    if file.exists() and not force:
        raise CommandError(f"{file} exists; name another file, or replace it with --force")
    from weir_cli.ledger_files import back_up_to

    count = back_up_to(url or _url_of(state_dir), file)
    print(f"{count} rows written to {file}")


def restore(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A back-up.")],
    url: Url = "",
    state_dir: StateDirOption = None,
) -> None:
    """Add what the ledger lacks of a back-up; all of it, or nothing if the file is not whole."""
    from weir_cli.ledger_files import restore_from

    done = restore_from(url or _url_of(state_dir), file)
    print(f"{done.added} rows added, {done.kept} were there; sums agree with the rows")


def verify(url: Url = "", state_dir: StateDirOption = None) -> None:
    """Compare the sums by hour with the rows; exit status 1 if they differ."""
    from weir_cli.ledger_files import wrong_sums

    found = wrong_sums(url or _url_of(state_dir))
    for line in found[:_SHOWN]:
        print(line)
    if found:
        raise CommandError(f"{len(found)} sums are not those of their rows")
    print("every sum is that of its rows")


def _url_of(state_dir: Path | None) -> str:
    from weir_ratelimiter.ledger.url import default_url

    folder = state_dir or running_folder()
    try:
        settings = yaml.safe_load((folder / f"{RATELIMITER}.yaml").read_text(encoding="utf-8"))
        return str(settings.get("ledger_url") or default_url(str(settings["journal"])))
    except (OSError, yaml.YAMLError, AttributeError, KeyError):
        raise CommandError(f"{folder} is not the --state-dir of a `weir up`") from None
