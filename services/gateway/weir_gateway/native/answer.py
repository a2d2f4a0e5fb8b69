"""The answer of one request as messages, a batch at a time."""

from weir.gateway.v1.inference_service_pb2 import GenerateResponse
from weir.scheduler.v1.scheduler_service_pb2 import Queued
from weir_core.errors import WeirError
from weir_gateway.flow.delivery import Waiting
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.native.conversion import finished_message
from weir_gateway.native.deltas import Deltas

# Only wakes the loop; the deadline of the request is a timer of its own.
_TAKE_S = 30.0


class Answer:
    """Reads the answer of a request; whoever is cancelled in between may read on later.

    Attributes:
        ended: the last messages were read.
        error: why the answer failed, or was cut; set with `ended`.
    """

    def __init__(self, live: LiveRequest) -> None:
        self._live = live
        self._deltas = Deltas(live.prepared, whole=live.delivery.whole)
        self.ended = False
        self.error: WeirError | None = None

    async def read(self) -> list[GenerateResponse]:
        """Waits for news; none when nothing came for a while."""
        taken = await self._live.delivery.take(_TAKE_S)
        messages = [] if taken.waiting is None else [self._queued(taken.waiting)]
        deltas = self._deltas.of(taken.pieces, last=taken.ending is not None)
        messages += [GenerateResponse(delta=delta) for delta in deltas]
        if taken.ending is not None:
            messages += self._end(taken.ending)
        return messages

    def _end(self, ending: Ending) -> list[GenerateResponse]:
        self.ended, self.error = True, ending.error
        if ending.error is not None and not ending.cut_by_quota:
            return []
        return [GenerateResponse(finished=finished_message(self._live, ending))]

    def _queued(self, waiting: Waiting) -> GenerateResponse:
        return GenerateResponse(
            queued=Queued(
                request_id=self._live.id,
                position=waiting.position,
                reason=waiting.reason,  # type: ignore[arg-type]
            )
        )
