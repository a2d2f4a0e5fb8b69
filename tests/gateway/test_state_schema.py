"""What migrations make is what the rooms of the gateway declare."""

import pkgutil
from importlib import import_module
from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

import weir_gateway
from weir_core.database.url import parse_database_url
from weir_gateway.state.database import StateDatabase
from weir_gateway.state.tables import metadata

OPTIONS = {"version_table": "state_alembic_version"}


async def test_tables_and_migrations_agree(tmp_path: Path) -> None:
    for room in pkgutil.iter_modules(weir_gateway.__path__):
        if room.ispkg and (Path(weir_gateway.__path__[0]) / room.name / "tables.py").exists():
            import_module(f"weir_gateway.{room.name}.tables")
    url = parse_database_url(f"sqlite:///{tmp_path}/state.sqlite", "state_url", "a test")
    state = StateDatabase(url)
    async with state.reading() as connection:
        differences = await connection.run_sync(
            lambda sync: compare_metadata(MigrationContext.configure(sync, opts=OPTIONS), metadata)
        )
    await state.close()
    assert {"jobs", "batches", "files", "responses", "webhook_messages"} <= set(metadata.tables)
    assert differences == []
