"""Responses, put together."""

from typing import Any

from starlette.routing import BaseRoute, Route

from weir_core.clock import Clock
from weir_core.repeating import Repeating
from weir_gateway.flow.reception import Reception
from weir_gateway.holdings.open_streams import OpenStreams
from weir_gateway.holdings.policies import KeepPolicies
from weir_gateway.idempotency.http_door import HttpIdempotency
from weir_gateway.intake.preparer import Preparer
from weir_gateway.jobs.room import JobRoom
from weir_gateway.responses.background import Background
from weir_gateway.responses.dialect import ResponsesDialect
from weir_gateway.responses.endpoint import InputTokensEndpoint, ResponsesEndpoint
from weir_gateway.responses.event_stream import EventStream
from weir_gateway.responses.job_end import ResponseEnds
from weir_gateway.responses.job_kind import KIND, ResponseJobs
from weir_gateway.responses.keeper import Keeper
from weir_gateway.responses.pages import CancelPage, DeletePage, InputItemsPage, RetrievePage
from weir_gateway.responses.store import ResponseStore
from weir_gateway.settings import GatewaySettings
from weir_gateway.state.state import State

_SWEEP_S = 60.0


class ResponseRoom:
    """`/v1/responses`.

    Args:
        settings: of the process.
        state: the database, or none.
        jobs: where background responses run.
        idempotency, reception, preparer: see there.
        clock: time.
        streams, policies: see there.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        state: State,
        jobs: JobRoom,
        idempotency: HttpIdempotency,
        reception: Reception,
        preparer: Preparer,
        clock: Clock,
        streams: OpenStreams,
        policies: KeepPolicies,
    ) -> None:
        self._state = state
        self._clock = clock
        self._store = store = ResponseStore(state, policies.responses)
        jobs.kinds.register(KIND, ResponseJobs(state, store, clock))
        retention_s = settings.response_retention_s
        jobs.ends.listen(ResponseEnds(store, jobs.tell, retention_s=retention_s).on_job_end)
        keeper = Keeper(state, store, clock, retention_s=retention_s)
        stream = EventStream(store, reception, ping_s=settings.ping_s, streams=streams)
        background = Background(
            state,
            store=store,
            jobs=jobs,
            keeper=keeper,
            reception=reception,
            preparer=preparer,
            stream=stream,
            clock=clock,
            window_s=settings.response_window_s,
            cancel_s=settings.abort_wait_s,
        )
        common: dict[str, Any] = {
            "reception": reception,
            "clock": clock,
            "max_body": settings.max_body_bytes,
            "stall_s": settings.stall_s,
        }
        self._create = ResponsesEndpoint(
            keeper=keeper,
            background=background,
            idempotency=idempotency,
            dialect=ResponsesDialect(keeper, clock),
            ping_s=settings.ping_s,
            **common,
        )
        self._count = InputTokensEndpoint(preparer=preparer, keeper=keeper, **common)
        parts = common | {"store": store, "background": background, "stream": stream}
        self._retrieve, self._delete = RetrievePage(**parts), DeletePage(**parts)
        self._cancel, self._items = CancelPage(**parts), InputItemsPage(**parts)
        self._sweep = Repeating("response_sweep", self._remove_expired, _SWEEP_S)

    def routes(self) -> list[BaseRoute]:
        """Of everything about responses."""
        one = "/v1/responses/{response_id}"
        return [
            Route("/v1/responses", self._create, methods=["POST"]),
            Route("/v1/responses/input_tokens", self._count, methods=["POST"]),
            Route(one, self._retrieve, methods=["GET"]),
            Route(one, self._delete, methods=["DELETE"]),
            Route(f"{one}/cancel", self._cancel, methods=["POST"]),
            Route(f"{one}/input_items", self._items, methods=["GET"]),
        ]

    def start(self) -> None:
        """Begins to remove what was kept long enough."""
        if self._state.on:
            self._sweep.start()

    async def stop(self) -> None:
        """Ends it."""
        await self._sweep.stop()

    async def _remove_expired(self) -> None:
        while await self._store.remove_expired(self._clock.now_ms()):
            pass
