"""The directory in a database: publishes what is there, and changes it in transactions."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog
from sqlalchemy import URL
from sqlalchemy.ext.asyncio import AsyncConnection

from weir.directory.v1.directory_service_pb2 import Delta
from weir_core.clock import Clock
from weir_core.database.failures import FAILURES, cause_of
from weir_core.directory import DirectoryIndex
from weir_core.errors import Reason, WeirError
from weir_core.errors.startup import StartupError
from weir_core.tasks import end_task
from weir_gateway.directory.checks import RuleBroken
from weir_gateway.directory.document import Document
from weir_gateway.directory.publisher import DirectoryPublisher
from weir_gateway.directory.sql import rows
from weir_gateway.directory.sql.advance import advanced, whole
from weir_gateway.directory.sql.assembly import Assembler, EntryInvalid
from weir_gateway.directory.sql.bootstrap import records_of
from weir_gateway.directory.sql.database import FILL_S, WRITE_S, Database
from weir_gateway.directory.sql.lost import check_whole
from weir_gateway.directory.sql.news import News
from weir_gateway.directory.sql.overlaps import end_overlaps
from weir_gateway.directory.sql.records import Draft, Kind, Name, Record, Records
from weir_gateway.directory.sql.refusals import invalid, told_unavailable, unavailable

_log = structlog.get_logger(__name__)

SYSTEM = "tokenweir"
_LOOK_S = 2.0


@dataclass(frozen=True, slots=True)
class Changed:
    """A change that is stored and published.

    Attributes:
        version: of the directory, with it.
        index: the directory at that version.
    """

    version: int
    index: DirectoryIndex


class SqlDirectory:
    """Keeps the published directory equal to the database's, and writes changes.

    Every gateway on the database looks at its version each `poll_s`, and at once where PostgreSQL
    tells it to; whoever changes something publishes it at once. While the database is down the
    last good version stays.

    Args:
        url: of the database.
        publisher: gets every version; must take them as they are numbered.
        poll_s: how often the version is looked at.
        on_refused: called when what is stored cannot be read or breaks a rule.
    """

    def __init__(
        self,
        url: URL,
        publisher: DirectoryPublisher,
        clock: Clock,
        *,
        poll_s: float = 0.25,
        on_refused: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = Database(url)
        self._publisher = publisher
        self._clock = clock
        self._poll_s = poll_s
        self._on_refused = on_refused
        self._assembler = Assembler()
        self._records = Records()
        # Of the rows that are held, and of what was published of them.
        self._version = 0
        self._published = 0
        # Rows that were read and are not published: what is stored may break a rule.
        self._unpublished: set[Name] = set()
        self._turn = asyncio.Lock()
        self._look_now = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._news = News(self._database, self._look_now.set)

    async def load(self, first: Callable[[], Document]) -> None:
        """Prepares the database, fills it with `first()` if it is empty, and publishes it.

        Raises:
            StartupError: it cannot be used; one line that says why.
        """
        try:
            await self._database.prepare()
            async with self._turn:
                await self._bootstrap(first)
                await self._refresh()
        except (RuleBroken, EntryInvalid) as error:
            raise StartupError(f"the directory's database: {error}") from None
        except FAILURES as error:
            raise StartupError(
                f"the directory's database cannot be used: {cause_of(error)}; see database_url"
            ) from error

    def start(self) -> None:
        """Begins to follow what other gateways write."""
        self._task = asyncio.create_task(self._follow(), name="directory-database")
        self._news.start()

    def reload(self) -> None:
        """Looks at the database now."""
        self._look_now.set()

    async def stop(self) -> None:
        """Ends it."""
        await self._news.stop()
        if self._task is not None:
            await end_task(self._task)
            self._task = None
        await self._database.close()

    async def change(self, actor: str, edit: Callable[[Draft], None]) -> Changed:
        """Makes one change: its rows, its audit events and the new version together.

        Args:
            actor: who wants it, for the audit trail.
            edit: draws the change up from what is stored at that moment.

        Raises:
            WeirError: what `edit` raises; INVALID_FIELD when a rule would break;
                DIRECTORY_UNAVAILABLE when the database cannot be written.
        """
        try:
            async with self._turn:
                await self._write(actor, edit)
        except EntryInvalid as error:
            raise invalid(error) from None
        except RuleBroken as error:
            raise WeirError(Reason.INVALID_FIELD, str(error)) from error
        except FAILURES as error:
            raise unavailable(error) from error
        return Changed(self._published, self._publisher.required)

    async def events(self, tenant_id: str, before: int, limit: int) -> list[dict[str, Any]]:
        """A page of the audit trail; see `rows.read_events`.

        Raises:
            WeirError: DIRECTORY_UNAVAILABLE.
        """
        with told_unavailable():
            async with self._database.reading() as connection:
                return await rows.read_events(connection, tenant_id, before, limit)

    async def note(self, actor: str, action: str, name: str) -> None:
        """Keeps in the audit trail what was done to something that is not in the directory.

        Raises:
            WeirError: DIRECTORY_UNAVAILABLE.
        """
        with told_unavailable():
            async with self._turn, self._database.writing(WRITE_S) as (connection, stored):
                await rows.write_note(
                    connection,
                    actor=actor,
                    action=action,
                    name=name,
                    time_ms=self._clock.now_ms(),
                    version=stored,
                )

    async def keep_uses(self, uses: Mapping[str, int]) -> None:
        """Keeps when keys were used last; see `rows.write_uses`.

        Raises:
            WeirError: DIRECTORY_UNAVAILABLE.
        """
        with told_unavailable():
            async with self._database.transaction(WRITE_S) as connection:
                await rows.write_uses(connection, self._database, uses)

    async def uses(self, key_ids: Sequence[str]) -> dict[str, int]:
        """When keys were used last; see `rows.read_uses`.

        Raises:
            WeirError: DIRECTORY_UNAVAILABLE.
        """
        with told_unavailable():
            async with self._database.reading() as connection:
                return await rows.read_uses(connection, key_ids)

    @property
    def version(self) -> int:
        """Of the directory that is published."""
        return self._published

    async def _bootstrap(self, first: Callable[[], Document]) -> None:
        async with self._database.reading() as connection:
            if await rows.read_version(connection):
                return
        document = first()

        def fill(draft: Draft) -> None:
            # Another gateway may have been first.
            if not any(True for _ in draft.before.of(Kind.CLUSTER)):
                for record in records_of(document):
                    draft.put(record, "bootstrap")

        await self._write(SYSTEM, fill, FILL_S)

    async def _write(
        self, actor: str, edit: Callable[[Draft], None], limit_s: float = WRITE_S
    ) -> None:
        async with self._database.writing(limit_s) as (connection, stored):
            await self._catch_up(connection, stored)
            draft = Draft(self._records)
            edit(draft)
            if not draft.changes:
                return
            now_ms = self._clock.now_ms()
            version = max(now_ms, stored + 1)
            changes = [replace(one, version=version) for one in draft.changes.values()]
            records = self._records.with_changes(changes)
            names = self._unpublished | draft.changes.keys()
            index, delta = self._next(records, names, version)
            check_whole(draft, index)
            await rows.write(connection, self._database, changes, version)
            await rows.write_events(
                connection, draft.events, actor=actor, time_ms=now_ms, version=version
            )
        self._hold(records, index, delta)

    async def _refresh(self) -> None:
        async with self._database.reading() as connection:
            stored = await rows.read_version(connection)
            if stored == self._published:
                return
            await self._catch_up(connection, stored)
        self._hold(self._records, *self._next(self._records, self._unpublished, stored))

    async def _catch_up(self, connection: AsyncConnection, stored: int) -> None:
        if stored < self._version:  # another database, or one put back from a back-up
            self._records, self._version, self._published = Records(), 0, 0
        if stored > self._version:
            changed: list[Record] = await rows.read_since(connection, self._version)
            self._records, self._version = self._records.with_changes(changed), stored
            self._unpublished |= {(one.kind, one.id) for one in changed}

    def _next(
        self, records: Records, names: set[Name], version: int
    ) -> tuple[DirectoryIndex, Delta | None]:
        before = self._publisher.index
        if before is None or not self._published:
            return whole(self._assembler, records, version), None
        return advanced(self._assembler, before, records, names, version)

    def _hold(self, records: Records, index: DirectoryIndex, delta: Delta | None) -> None:
        self._records, self._version = records, index.version
        self._published = index.version
        self._unpublished = set()
        self._publisher.advance(index, delta)

    async def _follow(self) -> None:
        trouble = ""
        while True:
            try:
                async with asyncio.timeout(self._poll_s):
                    await self._look_now.wait()
            except TimeoutError:
                pass
            self._look_now.clear()
            told = await self._look()
            if told and told != trouble:
                self._on_refused()
                _log.error("directory not read, the last good version stays", problem=told)
            elif trouble and not told:
                _log.info("directory read again", version=self._version)
            trouble = told

    async def _look(self) -> str:
        """Takes what is new; returns what is wrong, empty when nothing is."""
        try:
            async with self._turn, asyncio.timeout(_LOOK_S):
                await self._refresh()
            now_ms = self._clock.now_ms()
            if any(_due(record, now_ms) for record in self._records.overlapping()):
                await self.change(SYSTEM, lambda draft: end_overlaps(draft, now_ms))
        except (RuleBroken, EntryInvalid) as error:
            return str(error)
        except WeirError as error:
            return error.message
        except FAILURES as error:
            return cause_of(error)
        except Exception as error:
            # Whatever it is: keys that are revoked must be heard of afterwards.
            _log.error("directory_look_failed", exc_info=error)
            return f"internal error: {type(error).__name__}"
        return ""


def _due(record: Record, now_ms: int) -> bool:
    return record.overlap_end_ms is not None and record.overlap_end_ms <= now_ms
