"""A request for admission, checked."""

import msgspec

from weir_core.bucket import check_units
from weir_core.errors import InvalidField
from weir_ratelimiter.domain.demand import Amounts, demand
from weir_ratelimiter.domain.ids import fingerprint, reservation_id
from weir_ratelimiter.domain.price import Price
from weir_ratelimiter.domain.reservation import LONGEST_TTL_MS
from weir_ratelimiter.domain.subject import Subject, check_id, check_subject

_SHORTEST_TTL_MS = 1_000


class Ask(msgspec.Struct, frozen=True):
    """What Reserve is asked, before limits are known.

    Attributes:
        streams: the answer is streamed, which some limits count apart.
        batch: it is worked off later.
        ttl_ms: life of the leases; None means the default.
        model_context_tokens: context window that the caller knows of; 0: none.
        requests: how many requests it counts as.
        at_once: it is over as soon as it is admitted: it holds no lease, no context limit
            applies, and it may name no model and have no tokens.
    """

    request_id: str
    subject: Subject
    prompt_tokens: int
    max_new_tokens: int
    streams: bool = False
    batch: bool = False
    ttl_ms: int | None = None
    model_context_tokens: int = 0
    requests: int = 1
    at_once: bool = False

    def checked(self) -> "Ask":
        """Return the ask if every field is in bounds.

        Raises:
            InvalidField: naming field, value and bound.
        """
        check_id("request_id", self.request_id)
        check_subject(self.subject, model_needed=not self.at_once)
        fewest = 0 if self.at_once else 1
        check_units("prompt_tokens", self.prompt_tokens, lowest=fewest)
        check_units("max_new_tokens", self.max_new_tokens, lowest=fewest)
        check_units("model_context_tokens", self.model_context_tokens)
        check_units("requests", self.requests)
        check_ttl(self.ttl_ms)
        return self

    @property
    def id(self) -> str:
        """Id of the reservation, the same for every retry."""
        return reservation_id(self.subject.tenant_id, self.request_id)

    @property
    def fingerprint(self) -> bytes:
        """Tells a retry from another request under the same id."""
        who = self.subject
        return fingerprint(
            who.user_id,
            who.api_key_id,
            who.model,
            who.model_version,
            self.prompt_tokens,
            self.max_new_tokens,
            self.streams,
            self.batch,
            self.requests,
        )

    def amounts(self, output_tokens: int, price: Price) -> Amounts:
        """Units that it takes of every resource if `output_tokens` are reserved."""
        return demand(
            self.prompt_tokens,
            output_tokens,
            self.max_new_tokens,
            self.streams,
            price,
            requests=self.requests,
            at_once=self.at_once,
        )


def check_ttl(ttl_ms: int | None) -> int | None:
    """Return a life of leases, milliseconds, if it is in bounds.

    Raises:
        InvalidField: it is not.
    """
    if ttl_ms is not None and not _SHORTEST_TTL_MS <= ttl_ms <= LONGEST_TTL_MS:
        raise InvalidField("ttl", f"{ttl_ms} ms", "1 s to 10 min")
    return ttl_ms
