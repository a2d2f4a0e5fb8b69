"""Why a ratelimiter on its own admits nothing: for callers, without the operator's settings."""

from weir_core.errors import Reason, WeirError
from weir_core.errors.refusal import counted, spoken
from weir_core.telemetry.logs import get_logger
from weir_ratelimiter.domain.shortfall import Shortfall

_AWAY = "the shared store of the limits is away"
_LEAST_RETRY_S = 2.0
_MOST_RETRY_S = 30.0

_log = get_logger(__name__)


def closed(away_ms: int) -> WeirError:
    """Nothing is admitted while the store is away, for `away_ms` so far."""
    _log.info("refused_while_away", setting="when_store_is_away")
    return _unavailable("nothing is admitted meanwhile", away_ms)


def too_much_to_tell(pending: int, away_ms: int) -> WeirError:
    """`pending` reservations wait to be told to the store, and no more are kept."""
    _log.info("refused_while_away", setting="most_pending", pending=pending)
    return _unavailable("too many requests wait to be told to it", away_ms)


def beyond_credit(short: Shortfall, away_ms: int) -> WeirError:
    """A request is larger than what is left of a budget's credit."""
    _log.info(
        "refused_while_away",
        setting="degraded_budget_credit",
        limit=short.limit.key,
        lent=short.limit.capacity,
        used=short.used,
        requested=short.requested,
    )
    return _unavailable(_credit(short), away_ms)


def _credit(short: Shortfall) -> str:
    limit, resource = short.limit, short.limit.resource_name
    if not limit.numbers_are_own:
        return f"the budget {limit.key} lends less meanwhile than the request needs"
    left = max(0, limit.capacity - short.used)
    lent, used, free, requested = (
        counted(units, resource) for units in (limit.capacity, short.used, left, short.requested)
    )
    told = (
        f"the budget {limit.key} lends {lent} {spoken(resource)} meanwhile, of which {used} are "
        f"used and {free} left; {requested} are requested"
    )
    return f"{told}; a smaller request may fit" if left else told


def _unavailable(why: str, away_ms: int) -> WeirError:
    """To be tried again after as long as the store has been away already, within bounds."""
    retry_s = min(max(_LEAST_RETRY_S, away_ms / 1_000), _MOST_RETRY_S)
    return WeirError(Reason.LIMITER_UNAVAILABLE, f"{_AWAY}, and {why}", retry_after_s=retry_s)
