"""What operators ask of the account: who holds what, and units given or taken."""

import re
from collections.abc import Callable, Sequence

from weir.ratelimiter.v1 import ratelimiter_service_pb2 as pb
from weir_core.bucket import MAX_UNITS
from weir_core.errors import InvalidField
from weir_ratelimiter import wire
from weir_ratelimiter.domain.reservation import Reservation
from weir_ratelimiter.domain.subject import check_id, check_subject
from weir_ratelimiter.limit_status import StatusWriter
from weir_ratelimiter.limiter import Limiter

_DEFAULT_PAGE = 100
_LARGEST_PAGE = 1_000
_LONGEST_NOTE = 256
_LONGEST_LIMIT_ID = 1_024
_TOKEN = re.compile(r"(\d{1,15})\.([A-Za-z0-9_]{1,128})", re.ASCII)


class Administration:
    """Messages for operators in and out.

    Args:
        limiter: whose account it is.
        statuses: writes where a limit stands.
        now_ms: wall time, Unix milliseconds.
    """

    def __init__(self, limiter: Limiter, statuses: StatusWriter, now_ms: Callable[[], int]) -> None:
        self._limiter = limiter
        self._statuses = statuses
        self._now_ms = now_ms

    async def list_reservations(
        self, request: pb.ListReservationsRequest
    ) -> pb.ListReservationsResponse:
        """One page of a tenant's open reservations, oldest first.

        Raises:
            InvalidField: a field is out of bounds.
        """
        tenant_id = check_id("tenant_id", request.tenant_id)
        size = _page_size(request.page_size)
        after = _after(request.page_token)
        found = await self._limiter.open_reservations(tenant_id, after, size + 1)
        page = found[:size]
        return pb.ListReservationsResponse(
            reservations=map(wire.reservation_to, page),
            next_page_token=_token(page) if len(found) > size else "",
        )

    async def adjust(self, request: pb.AdjustLimitRequest) -> pb.AdjustLimitResponse:
        """Give units to one limit, or take them.

        Raises:
            InvalidField: a field is out of bounds.
            WeirError: see `Limiter.adjust`.
        """
        subject = check_subject(wire.subject_from(request.subject), model_needed=False)
        adjusted = await self._limiter.adjust(
            check_id("adjustment_id", request.adjustment_id),
            self._limiter.book.canonical(subject),
            _limit_id(request.limit_id),
            _units(request.units),
            _note(request.note),
        )
        response = pb.AdjustLimitResponse(replayed=adjusted.replayed, units=adjusted.units)
        self._statuses.fill(adjusted.state, response.limit, self._now_ms())
        return response


def _page_size(size: int) -> int:
    if not 0 <= size <= _LARGEST_PAGE:
        raise InvalidField("page_size", size, f"1 to {_LARGEST_PAGE}, or 0 for {_DEFAULT_PAGE}")
    return size or _DEFAULT_PAGE


def _after(token: str) -> tuple[int, str]:
    if not token:
        return 0, ""
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise InvalidField("page_token", token, "the next_page_token of the page before")
    return int(match[1]), match[2]


def _token(page: Sequence[Reservation]) -> str:
    return f"{page[-1].created_ms}.{page[-1].id}"


def _limit_id(limit_id: str) -> str:
    if not 1 <= len(limit_id) <= _LONGEST_LIMIT_ID or not limit_id.isprintable():
        bound = "the id of a limit as in LimitStatus, such as tenant:acme/tpm"
        raise InvalidField("limit_id", limit_id, bound)
    return limit_id


def _units(units: int) -> int:
    if units == 0 or abs(units) > MAX_UNITS:
        raise InvalidField("units", units, "within -2^53..2^53, and not 0")
    return units


def _note(note: str) -> str:
    if not 1 <= len(note) <= _LONGEST_NOTE or not note.isprintable():
        raise InvalidField("note", note, f"1 to {_LONGEST_NOTE} printable characters")
    return note
