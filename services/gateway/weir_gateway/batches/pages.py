"""`/v1/batches`, in OpenAI's shapes."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from weir_core.clock import Clock
from weir_core.ids import new_id, new_request_id
from weir_core.telemetry import names
from weir_gateway.batches.batch import Batch
from weir_gateway.batches.batch_json import batch_json
from weir_gateway.batches.batch_store import BatchStore
from weir_gateway.batches.create_fields import WINDOW_MS, read_create
from weir_gateway.batches.driver import BatchDriver
from weir_gateway.caller.caller import Caller
from weir_gateway.flow.reception import Reception
from weir_gateway.jobs.kind import JobKinds
from weir_gateway.jobs.submissions import Submissions
from weir_gateway.openai.list_json import list_json
from weir_gateway.openai.query import Query
from weir_gateway.openai.whole_body import read_object

_MOST_LISTED, _LISTED = 100, 20
_MOST_BYTES = 65_536


class BatchPages:
    """The handlers.

    Args:
        reception: knows who calls.
        store, driver, kinds: see there.
        clock: for ids and times.
        submissions: spans of creations.
        http_webhooks: whether webhooks may go over plain HTTP.
    """

    def __init__(
        self,
        *,
        reception: Reception,
        store: BatchStore,
        driver: BatchDriver,
        kinds: JobKinds,
        clock: Clock,
        submissions: Submissions,
        http_webhooks: bool,
    ) -> None:
        self._reception = reception
        self._store = store
        self._driver = driver
        self._kinds = kinds
        self._clock = clock
        self._submissions = submissions
        self._http_webhooks = http_webhooks

    def routes(self) -> list[Route]:
        """Of the HTTP door."""
        return [
            Route("/v1/batches", self.create, methods=["POST"]),
            Route("/v1/batches", self.list_batches, methods=["GET"]),
            Route("/v1/batches/{batch_id}", self.get, methods=["GET"]),
            Route("/v1/batches/{batch_id}/cancel", self.cancel, methods=["POST"]),
        ]

    async def create(self, request: Request) -> Response:
        """`POST /v1/batches`."""
        caller = self._caller(request)
        body = await read_object(request, _MOST_BYTES)
        fields = read_create(body, self._kinds, http_webhooks=self._http_webhooks)
        now_ms = self._clock.now_ms()
        batch_id = new_id("batch", self._clock)
        batch = Batch(
            id=batch_id,
            tenant_id=caller.tenant_id,
            user_id=caller.user_id,
            api_key_id=caller.key_id,
            endpoint=fields.endpoint,
            input_file_id=fields.input_file_id,
            created_ms=now_ms,
            deadline_ms=now_ms + WINDOW_MS,
            output_ttl_ms=fields.output_ttl_ms,
            webhook_url=fields.webhook_url,
            metadata=fields.metadata,
            traceparent=self._submissions.trace(
                names.SPAN_BATCH_CREATE, caller.tenant_id, {names.BATCH_ID: batch_id}
            ),
        )
        await self._store.add(batch)
        self._driver.wake()
        return self._json(batch_json(batch))

    async def list_batches(self, request: Request) -> Response:
        """`GET /v1/batches`."""
        caller = self._caller(request)
        query = Query(request.query_params, ("after", "limit"))
        limit = query.integer("limit", default=_LISTED, most=_MOST_LISTED)
        found = await self._store.list_batches(
            caller.tenant_id, after=query.word("after"), limit=limit + 1
        )
        return self._json(list_json([batch_json(batch) for batch in found], limit))

    async def get(self, request: Request) -> Response:
        """`GET /v1/batches/{batch_id}`."""
        caller = self._caller(request)
        batch = await self._store.get(caller.tenant_id, request.path_params["batch_id"])
        return self._json(batch_json(batch))

    async def cancel(self, request: Request) -> Response:
        """`POST /v1/batches/{batch_id}/cancel`."""
        caller = self._caller(request)
        batch = await self._store.cancel(caller.tenant_id, request.path_params["batch_id"])
        self._driver.wake()
        return self._json(batch_json(batch))

    def _caller(self, request: Request) -> Caller:
        return self._reception.let_in(request.headers.get("authorization"))

    def _json(self, body: dict[str, Any]) -> Response:
        return JSONResponse(body, headers={"x-request-id": new_request_id(self._clock)})
