"""The sessions of a gateway, wired."""

from collections.abc import Callable, Sequence

import grpc
from pydantic import SecretStr
from starlette.routing import Route

from weir.common.v1.lifecycle_pb2 import Outcome
from weir.gateway.v1.session_service_pb2_grpc import add_SessionServiceServicer_to_server
from weir_core.clock import Clock
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.flow.reception import Reception
from weir_gateway.flow.request_records import RequestRecords
from weir_gateway.intake.model_list import ModelList
from weir_gateway.sessions.cache import SessionCache
from weir_gateway.sessions.deletion_watch import DeletionWatch
from weir_gateway.sessions.desk import SessionDesk
from weir_gateway.sessions.kv_release import KvRelease
from weir_gateway.sessions.live_homes import LiveHomes
from weir_gateway.sessions.routes import SessionRoutes
from weir_gateway.sessions.servicer import SessionServicer
from weir_gateway.sessions.session_use import SessionUse
from weir_gateway.sessions.store import Deletion, SessionStore
from weir_gateway.sessions.use_writer import UseWriter
from weir_gateway.state.state import State


class SessionRoom:
    """Wires the parts of this package.

    Args:
        state: where sessions are kept.
        records: requests that live here.
        open_channel: to a worker's `host:port`.
        secret: of the cluster.
        clock: time.
    """

    def __init__(
        self,
        state: State,
        records: RequestRecords,
        open_channel: Callable[[str], grpc.aio.Channel],
        *,
        secret: SecretStr,
        clock: Clock,
    ) -> None:
        self._on = state.on
        self._clock = clock
        store = SessionStore(state)
        self._cache = cache = SessionCache()
        self._homes = LiveHomes(records)
        self._release = KvRelease(open_channel)
        self._watch = DeletionWatch(store, cache, self._on_deleted, self._homes.any_turns)
        self._writer = UseWriter(store, clock, self._on_lost)
        self.desk = SessionDesk(
            store=store,
            cache=cache,
            watch=self._watch,
            writer=self._writer,
            release=self._release,
            homes=self._homes,
            on=state.on,
            secret=secret.get_secret_value().encode(),
            clock=clock,
        )

    def start(self) -> None:
        """Starts what runs in the background."""
        if self._on:
            self._watch.start()
            self._writer.start()

    async def stop(self) -> None:
        """Ends it; before the state is closed."""
        await self._watch.stop()
        await self._writer.stop()
        await self._release.stop()

    def serve(self, server: grpc.aio.Server, reception: Reception, models: ModelList) -> None:
        """Adds the service."""
        servicer = SessionServicer(reception, models, self.desk)
        add_SessionServiceServicer_to_server(servicer, server)

    def routes(self, reception: Reception, models: ModelList) -> list[Route]:
        """What the HTTP door serves."""
        return SessionRoutes(reception, models, self.desk, self._clock).routes()

    def on_admitted(self, live: LiveRequest) -> None:
        """A request was accepted: its session is in use."""
        turn = live.prepared.session
        if turn is not None:
            self.desk.turn_began(live.prepared.subject.tenant_id, turn.session_id)

    def on_end(self, live: LiveRequest, ending: Ending) -> None:
        """A request has ended: what its session is to know."""
        turn = live.prepared.session
        if turn is None:
            return
        well = ending.outcome == Outcome.OUTCOME_OK
        self.desk.turn_ended(
            live.prepared.subject.tenant_id,
            turn.session_id,
            ending.usage.total_tokens if well else None,
            {live.facts.worker_id: live.facts.worker_address} if live.facts.worker_id else {},
        )

    def _on_deleted(self, deleted: Deletion) -> None:
        key = deleted.tenant_id, deleted.session_id
        self._release.release_later(*key, self._writer.forget(*key) | self._homes.of(*key))

    def _on_lost(self, uses: Sequence[SessionUse]) -> None:
        for use in uses:
            # It may be made again: one of a label, when there is room for it.
            self._cache.drop(use.tenant_id, use.session_id)
            self._release.release_later(use.tenant_id, use.session_id, use.homes)
