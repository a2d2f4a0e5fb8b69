"""A directory in a database, for tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from weir.directory.v1.directory_pb2 import Snapshot
from weir_core.clock import Clock, SystemClock
from weir_core.database.url import parse_database_url
from weir_core.directory.delta import object_id
from weir_gateway.admin.key_ring import KeyRing
from weir_gateway.admin.objects import Objects
from weir_gateway.directory.document import Document
from weir_gateway.directory.file import parse_document
from weir_gateway.directory.publisher import DirectoryPublisher
from weir_gateway.directory.snapshot_builder import build_snapshot
from weir_gateway.directory.sql.source import SqlDirectory

NOBODY = "tenants: []"


@dataclass
class Desk:
    """One gateway's view of a database, with what administrators use."""

    source: SqlDirectory
    publisher: DirectoryPublisher
    objects: Objects
    keys: KeyRing

    @property
    def snapshot(self) -> Snapshot:
        return self.publisher.snapshot


@asynccontextmanager
async def open_desk(
    url: str,
    document: dict[str, Any] | None = None,
    clock: Clock | None = None,
    *,
    poll_s: float = 0.05,
) -> AsyncIterator[Desk]:
    clock = clock or SystemClock()
    publisher = DirectoryPublisher(clock, shared=True)
    source = SqlDirectory(parse_database_url(url, "url", "a test"), publisher, clock, poll_s=poll_s)
    try:
        await source.load(lambda: parsed(document))
        source.start()
        yield Desk(source, publisher, Objects(source, publisher), KeyRing(source, clock))
    finally:
        await source.stop()


def parsed(document: dict[str, Any] | None) -> Document:
    text = NOBODY if document is None else yaml.safe_dump(document, allow_unicode=True)
    return parse_document(text, "directory.yaml")


def of_file(document: dict[str, Any]) -> Snapshot:
    """What the file would be served as."""
    return build_snapshot(parsed(document), 1)


def ordered(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot but for the order of its objects and its version."""
    lists = ("tenants", "users", "api_keys", "plans", "models")
    found: dict[str, Any] = {
        name: {object_id(one): one for one in getattr(snapshot, name)} for name in lists
    }
    found["pools"] = {pool.name: pool for pool in snapshot.pools}
    found["cluster"] = list(snapshot.cluster_limits)
    return found
