"""Everywhere that the text of a tenant could end up, and a search through all of it."""

import io
import json
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.gateway.fake_server import TOKEN
from tests.gateway.harness import Gateway
from weir_core.telemetry.logs import setup_logs
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.telemetry import Telemetry
from weir_core.telemetry.tracing import Tracing

MARK = "zqMARKqz"
"""Part of every text that must stay its tenant's."""


def marked(field: str) -> str:
    """A text of two words for one field."""
    return f"{MARK}{field} private"


class Sinks:
    """Logs at DEBUG, spans, and what services and databases were given."""

    def __init__(self) -> None:
        self.logs = io.StringIO()
        self.spans = InMemorySpanExporter()
        self.telemetry = Telemetry(
            Tracing("gateway", processor=SimpleSpanProcessor(self.spans)), create_registry()
        )

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.logs.getvalue().splitlines()]

    async def texts(self, gateway: Gateway) -> dict[str, str]:
        """What an operator, or what keeps the bill, can see of everything, by its name."""
        operator = {"authorization": f"Bearer {TOKEN.get_secret_value()}"}
        limiter = [str(account.request) for account in gateway.limiter.accounts.values()]
        limiter += [str(account.settles) for account in gateway.limiter.accounts.values()]
        scheduler = gateway.scheduler
        return {
            "logs": self.logs.getvalue(),
            "spans": "".join(span.to_json() for span in self.spans.get_finished_spans()),
            "metrics": (await gateway.http.get("/metrics", headers=operator)).text,
            "ledger": "".join(limiter),
            "queue": f"{scheduler.enqueued}{scheduler.finished}{scheduler.failed}",
        }


@contextmanager
def open_sinks() -> Iterator[Sinks]:
    """Logs of this process go to the sinks until the block ends."""
    before = logging.getLogger().handlers[:]
    sinks = Sinks()
    setup_logs("weir-gateway", stream=sinks.logs, level="DEBUG")
    try:
        yield sinks
    finally:
        logging.getLogger().handlers[:] = before


def rows_with(database: Path, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of any table of an SQLite file in which `text` stands; with the table's name."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        connection.row_factory = sqlite3.Row
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in names.fetchall():
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                values = dict(row)
                if any(_holds(value, text) for value in values.values()):
                    yield table, values


def files_of(database: Path, tenant: str) -> set[str]:
    """Ids of a tenant's files."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        rows = connection.execute("SELECT id FROM files WHERE tenant_id = ?", (tenant,))
        return {str(row[0]) for row in rows}


def _holds(value: object, text: str) -> bool:
    if isinstance(value, bytes):
        return text.encode() in value
    return isinstance(value, str) and text in value
