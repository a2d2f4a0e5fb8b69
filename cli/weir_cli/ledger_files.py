"""Work on the ledger's database itself. Imports SQLAlchemy: half a second that the other
commands are spared."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from weir_cli.errors import CommandError
from weir_core.errors.startup import StartupError
from weir_ratelimiter.ledger.backup import back_up
from weir_ratelimiter.ledger.backup_file import BadBackup
from weir_ratelimiter.ledger.database import FAILURES, Database, cause_of
from weir_ratelimiter.ledger.restore import Restored, restore
from weir_ratelimiter.ledger.url import parse_url
from weir_ratelimiter.ledger.verification import differences

T = TypeVar("T")


def back_up_to(url: str, file: Path) -> int:
    """Write a back-up; returns the number of rows.

    Raises:
        CommandError: there is no such ledger, or one of the two cannot be read or written.
    """
    _check_there(url)
    return _with(url, lambda database: back_up(database, file))


def restore_from(url: str, file: Path) -> Restored:
    """Bring a back-up in.

    Raises:
        CommandError: the file is not whole, or the ledger cannot be written.
    """
    try:
        return _with(url, lambda database: restore(database, file, int(time.time() * 1_000)))
    except BadBackup as error:
        raise CommandError(f"{file} was not restored: {error}") from None


def wrong_sums(url: str) -> Sequence[str]:
    """One line for each sum that is not that of its rows.

    Raises:
        CommandError: there is no such ledger, or it cannot be read.
    """
    _check_there(url)
    return _with(url, differences)


def _check_there(url: str) -> None:
    """A SQLite file would be made, empty, by reading it."""
    try:
        parsed = parse_url(url, "--url")
    except StartupError as error:
        raise CommandError(str(error)) from None
    if parsed.get_backend_name() == "sqlite" and not Path(str(parsed.database)).is_file():
        raise CommandError(f"there is no ledger at {parsed.database}")


def _with(url: str, work: Callable[[Database], Awaitable[T]]) -> T:
    async def run() -> T:
        database = Database(parse_url(url, "--url"))
        try:
            return await work(database)
        finally:
            await database.close()

    try:
        return asyncio.run(run())
    except FAILURES as error:
        raise CommandError(f"the ledger or the file: {cause_of(error)}") from None
