"""Requests in a line each, newest first."""

from collections.abc import Iterator

from weir.gateway.v1.insight_service_pb2 import (
    ListRequestsRequest,
    RequestState,
    RequestSummary,
)
from weir_core.errors import InvalidField
from weir_gateway.flow.messages import timestamp
from weir_gateway.flow.trail import Moment, Trail
from weir_gateway.flow.wire_reason import to_wire
from weir_gateway.insight.explanation import end_error, lifecycle_of, state_of, subject_of
from weir_gateway.insight.request_book import RequestBook
from weir_gateway.paging import make_token, page_size, read_token

Place = tuple[int, str]
"""Arrival, Unix microseconds, and id: the order of lists."""


def newest(
    book: RequestBook, query: ListRequestsRequest, tenant_id: str, gateway_id: str
) -> list[RequestSummary]:
    """One more than the page that a query asks for, if there are so many.

    Raises:
        InvalidField: the page's size or token, or the time.
    """
    most, before = page_size(query.page_size), read_place(query.page_token)
    found = sorted(
        (trail for trail in _matching(book, query, tenant_id) if _before(trail, before)),
        key=lambda trail: (trail.arrived_us, trail.request_id),
        reverse=True,
    )
    return [summary_of(trail, gateway_id) for trail in found[: most + 1]]


def merged(
    lists: list[list[RequestSummary]], query: ListRequestsRequest
) -> tuple[list[RequestSummary], str]:
    """The page out of the lists of all gateways, and the token of the one after."""
    most = page_size(query.page_size)
    by_id = {summary.request_id: summary for part in lists for summary in part}
    ordered = sorted(by_id.values(), key=_place_of, reverse=True)
    page = ordered[:most]
    return page, _token(page[-1]) if len(ordered) > most else ""


def summary_of(trail: Trail, gateway_id: str) -> RequestSummary:
    """A trail in a line."""
    summary = RequestSummary(
        request_id=trail.request_id,
        subject=subject_of(trail),
        state=state_of(trail),
        arrive_time=timestamp(trail.arrived_us),
        prompt_tokens=trail.prompt_tokens,
        gateway_id=gateway_id,
    )
    record, error = lifecycle_of(trail), end_error(trail)
    if record is not None:
        usage = record.usage
        summary.outcome = record.outcome
        summary.finish_reason = record.finish_reason
        summary.worker_id = record.worker_id
        summary.attempts = record.attempts
        summary.cached_prompt_tokens = usage.cached_prompt_tokens
        summary.completion_tokens = usage.completion_tokens
        summary.degradations.extend(record.degradations)
        if record.HasField("end_time"):
            summary.end_time.CopyFrom(record.end_time)
        if record.HasField("first_token_time"):
            first_us = record.first_token_time.ToMicroseconds()
            summary.first_token_after.FromMicroseconds(max(0, first_us - trail.arrived_us))
    if error is not None:
        summary.error_reason = to_wire(error.reason)
    _add_moments(summary, trail)
    return summary


def read_place(token: str) -> Place | None:
    """Where a page goes on; None for the first. Raises InvalidField."""
    if not token:
        return None
    us, _, request_id = read_token(token).partition("/")
    if not us.isdigit() or not request_id:
        raise InvalidField("page_token", token, "empty, or a next_page_token")
    return int(us), request_id


def _add_moments(summary: RequestSummary, trail: Trail) -> None:
    for unix_us, kind, fields in reversed(trail.moments):
        if kind is Moment.REFUSED and trail.error is not None:
            summary.end_time.CopyFrom(timestamp(unix_us))
        elif kind is Moment.DISPATCHED and fields is not None:
            summary.queue_time.FromMicroseconds(fields["queue_us"])
            return
        elif kind is Moment.QUEUED and fields is not None and trail.live is not None:
            summary.queue_reason = fields["queue_reason"]
            summary.position = fields["position"]
            return


def _earliest_us(query: ListRequestsRequest) -> int:
    if not query.HasField("from_time"):
        return 0
    try:
        return query.from_time.ToMicroseconds()
    except ValueError as error:
        raise InvalidField("from_time", str(error), "a time of the years 1 to 9999") from None


def _matching(book: RequestBook, query: ListRequestsRequest, tenant_id: str) -> Iterator[Trail]:
    from_us = _earliest_us(query)
    any_state = RequestState.REQUEST_STATE_UNSPECIFIED
    for trail in book.trails(tenant_id):
        if trail.arrived_us < from_us:
            continue
        if query.model and subject_of(trail).model != query.model:
            continue
        if query.state not in (any_state, state_of(trail)):
            continue
        if query.outcome and (trail.record is None or trail.record.outcome != query.outcome):
            continue
        yield trail


def _before(trail: Trail, place: Place | None) -> bool:
    return place is None or (trail.arrived_us, trail.request_id) < place


def _place_of(summary: RequestSummary) -> Place:
    return summary.arrive_time.ToMicroseconds(), summary.request_id


def _token(summary: RequestSummary) -> str:
    us, request_id = _place_of(summary)
    return make_token(f"{us}/{request_id}")
