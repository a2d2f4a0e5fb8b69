"""What became of one request, told to a person."""

from weir.common.v1.lifecycle_pb2 import Outcome
from weir.common.v1.usage_pb2 import UsageQuality
from weir.ratelimiter.v1.ratelimiter_service_pb2 import Reservation, ReservationState
from weir_cli.spans import clock, span_text
from weir_core.errors.refusal import counted

_UNKNOWN = "-"


def reservation_text(reservation: Reservation) -> str:
    """How it ended, what was charged and when first; then whose it was."""
    state = ReservationState.Name(reservation.state).removeprefix("RESERVATION_STATE_")
    lines = [
        f"request {reservation.request_id}: {state}",
        *(_ended(reservation) if reservation.HasField("settlement") else _open(reservation)),
        f"  reserved {reservation.reserved_prompt_tokens} prompt + "
        f"{reservation.reserved_output_tokens} output tokens at {clock(reservation.create_time)}",
        f"  model {reservation.subject.model}, user {reservation.subject.user_id or _UNKNOWN}, "
        f"key {reservation.subject.api_key_id or _UNKNOWN}, "
        f"reservation {reservation.reservation_id}",
    ]
    return "\n".join(lines)


def _ended(reservation: Reservation) -> list[str]:
    settlement = reservation.settlement
    charged = settlement.charged
    estimated = settlement.usage_quality == UsageQuality.USAGE_QUALITY_ESTIMATED
    outcome = Outcome.Name(reservation.outcome).removeprefix("OUTCOME_").lower()
    took_ms = settlement.settle_time.ToMilliseconds() - reservation.create_time.ToMilliseconds()
    return [
        f"  outcome {outcome}, ended at {clock(settlement.settle_time)} "
        f"after {span_text(max(0, took_ms))}",
        f"  charged {charged.prompt_tokens} prompt ({charged.cached_prompt_tokens} cached) + "
        f"{charged.completion_tokens} output tokens{' (estimated)' if estimated else ''}, "
        f"cost {counted(reservation.amount_nanos, 'cost')}",
    ]


def _open(reservation: Reservation) -> list[str]:
    return [
        f"  runs; {reservation.progress_output_tokens} output tokens reported so far, "
        f"its lease ends at {clock(reservation.expire_time)}"
    ]
