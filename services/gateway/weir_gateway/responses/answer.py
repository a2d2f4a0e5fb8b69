"""Answers of `/v1/responses`, whole and as events."""

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from weir_core.clock import Clock
from weir_core.errors import WeirError
from weir_gateway.flow.delivery import Piece
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.responses.output_items import Event, OutputItems
from weir_gateway.responses.request import ResponseRequest
from weir_gateway.responses.response_json import ResponseJson, begun, ended, status_of


class ResponseAnswer:
    """How the answer of one request looks.

    Args:
        live: the request that runs.
        request: as it was asked for.
        clock: wall time.
        kept: whether the response will be kept.
    """

    def __init__(
        self, live: LiveRequest, request: ResponseRequest, clock: Clock, *, kept: bool
    ) -> None:
        self.request = request
        self.tenant_id = live.prepared.subject.tenant_id
        self.request_id = live.id
        created_s = live.facts.accepted_us // 1_000_000
        self._begun = begun(request, live.prepared, created_s=created_s, status="in_progress")
        self._begun["store"] = kept
        self._items = OutputItems(live.prepared, request.id)
        self._clock = clock
        self._ended: ResponseJson | None = None
        self._unsent: list[Event] = []
        self._sequence = 0

    def opening(self) -> bytes:
        """The first events of a stream."""
        kinds = ("response.created", "response.in_progress")
        return self._events({"type": kind, "response": self._begun} for kind in kinds)

    def pieces(self, pieces: Sequence[Piece]) -> bytes:
        """Events with new text."""
        return self._events(event for piece in pieces for event in self._items.feed(piece))

    def conclude(self, pieces: Sequence[Piece], ending: Ending) -> ResponseJson:
        """The response as it ended, after its last pieces."""
        if self._ended is None:
            for piece in pieces:
                self._unsent += self._items.feed(piece)
            complete = status_of(ending) == "completed"
            self._unsent += self._items.finish("completed" if complete else "incomplete")
            now_s = self._clock.now_us() // 1_000_000
            self._ended = ended(self._begun, ending, self._items.items, now_s)
        return self._ended

    def not_kept(self, error: WeirError) -> None:
        """Tells that the response, made and charged, could not be kept."""
        assert self._ended is not None
        self._ended |= {"store": False, "store_error": error.message}

    def closing(self, ending: Ending) -> bytes:
        """The last events of a stream."""
        response = self.conclude((), ending)
        events, self._unsent = self._unsent, []
        last = {"type": f"response.{response['status']}", "response": response}
        return self._events([*events, last])

    def whole(self, pieces: Sequence[Piece], ending: Ending) -> bytes:
        """The body of an answer that is not streamed."""
        return orjson.dumps(self.conclude(pieces, ending))

    def _events(self, events: Iterable[dict[str, Any]]) -> bytes:
        out = []
        for event in events:
            out.append(encoded(event | {"sequence_number": self._sequence}))
            self._sequence += 1
        return b"".join(out)


def encoded(event: Event) -> bytes:
    """An event as it is sent."""
    kind: str = event["type"]
    return b"event: " + kind.encode() + b"\ndata: " + orjson.dumps(event) + b"\n\n"
