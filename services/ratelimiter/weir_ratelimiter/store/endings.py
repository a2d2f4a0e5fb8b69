"""Why a reservation cannot be changed any more: the same words from every store."""

from weir_core.errors import Reason, WeirError
from weir_ratelimiter.domain.reservation import Reservation, State
from weir_ratelimiter.record import Record


def over(reservation: Reservation) -> WeirError:
    """RESERVATION_EXPIRED for one that has ended, or whose leases have lapsed."""
    if reservation.open or reservation.state is State.EXPIRED:
        message = (
            f"reservation {reservation.id} lapsed {reservation.ttl_ms} ms after its last sign of "
            "life; stop the request or reserve again, and extend sooner or with a longer ttl"
        )
    else:
        message = f"reservation {reservation.id} is {reservation.state.name.lower()} already"
    return WeirError(Reason.RESERVATION_EXPIRED, message, field="record")


def forgotten(record: Record) -> WeirError:
    """RESERVATION_NOT_FOUND for one that must have ended long ago."""
    return WeirError(
        Reason.RESERVATION_NOT_FOUND,
        f"reservation {record.id} has ended so long ago that its end is forgotten",
        field="record",
    )
