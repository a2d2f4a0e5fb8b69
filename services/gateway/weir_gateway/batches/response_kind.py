"""Lines of batches of `/v1/responses`: nothing is kept of a response but its line."""

from collections.abc import Sequence

import orjson

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_gateway.flow.delivery import Piece
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.jobs.job import Job
from weir_gateway.jobs.kinds.offline import offline
from weir_gateway.openai.json_body import parse_object
from weir_gateway.responses.body import response_request
from weir_gateway.responses.items import text_of
from weir_gateway.responses.output_items import OutputItems
from weir_gateway.responses.request import ResponseRequest
from weir_gateway.responses.response_json import begun, ended, status_of

KIND = "batch_response"


class BatchResponseKind:
    """See `JobKind`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def parse(self, body: bytes) -> GenerationRequest:
        """The request of a body. Raises WeirError: also for what a batch has no place for."""
        request = response_request(parse_object(body), "")
        if request.previous_id:
            raise WeirError(
                Reason.UNSUPPORTED_FIELD,
                "previous_response_id is not supported: lines of batches stand by themselves; "
                "send the whole conversation",
                field="previous_response_id",
            )
        if request.store:
            raise WeirError(
                Reason.UNSUPPORTED_FIELD,
                "store is not supported: responses of batches are kept in the output file alone; "
                "send false, or leave it out",
                field="store",
            )
        return offline(request.request)

    def recorder(self, job: Job, live: LiveRequest) -> "BatchResponseRecorder":
        """Of one attempt."""
        request = response_request(parse_object(job.body), f"resp_{job.id.removeprefix('job_')}")
        return BatchResponseRecorder(job, live, request, self._clock)

    def text(self, result: bytes) -> str:
        """The text of the answer."""
        items = orjson.loads(result)["output"]
        return "".join(text_of(item["content"]) for item in items if item["type"] == "message")


class BatchResponseRecorder:
    """Keeps the items of the answer."""

    def __init__(self, job: Job, live: LiveRequest, request: ResponseRequest, clock: Clock) -> None:
        created_s = job.created_ms // 1_000
        self._begun = begun(request, live.prepared, created_s=created_s, status="in_progress")
        self._begun["store"] = False
        self._items = OutputItems(live.prepared, request.id)
        self._clock = clock

    async def pieces(self, pieces: Sequence[Piece]) -> None:
        """New text."""
        for piece in pieces:
            for _ in self._items.feed(piece):
                pass

    async def finish(self, ending: Ending) -> bytes:
        """The JSON of the response."""
        status = "completed" if status_of(ending) == "completed" else "incomplete"
        for _ in self._items.finish(status):
            pass
        now_s = self._clock.now_us() // 1_000_000
        return orjson.dumps(ended(self._begun, ending, self._items.items, now_s))
