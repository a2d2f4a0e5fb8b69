"""Files of SQLite that several processes open at once."""

import asyncio
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import OperationalError

from weir_core.database import engine as engines


async def _journal_of(path: Path) -> str:
    engine = engines.open_engine(make_url(f"sqlite+aiosqlite:///{path}"))
    try:
        async with engine.connect() as connection:
            return str(await connection.scalar(text("PRAGMA journal_mode")))
    finally:
        await engine.dispose()


def _written_to(path: Path) -> sqlite3.Connection:
    """A connection in the middle of its write, before anybody asked for a write-ahead log."""
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("CREATE TABLE first (x)")
    return writer


async def test_a_new_file_that_another_writes_to_is_waited_for(tmp_path: Path) -> None:
    writer = _written_to(tmp_path / "new.sqlite")
    opening = asyncio.create_task(_journal_of(tmp_path / "new.sqlite"))
    await asyncio.wait({opening}, timeout=0.2)
    writer.execute("COMMIT")
    writer.close()
    assert await opening == "wal"


async def test_a_file_that_stays_locked_is_waited_for_no_longer_than_for_any_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_BUSY_S", 0.1)
    writer = _written_to(tmp_path / "locked.sqlite")
    async with asyncio.timeout(20):
        with pytest.raises(OperationalError, match="database is locked"):
            await _journal_of(tmp_path / "locked.sqlite")
    writer.close()
