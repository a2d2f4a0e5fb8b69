"""What a tenant may do with the KV cache."""

import msgspec

from weir_core.errors import InvalidField

DEFAULT_SESSION_TTL_MS = 15 * 60 * 1000
MAX_SESSION_TTL_MS = 24 * 60 * 60 * 1000
MAX_WEIGHT = 1000


class KvPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant's part of the cache, as a request brings it.

    Attributes:
        max_tokens: held at once by the tenant's requests and sessions, rounded up to whole
            blocks; 0: no bound.
        weight: its soft share, by ratio to the weights of others.
        share_private: any request of the tenant may find what this one computes, past the
            declared prefix too.
        session_ttl_ms: idle life of the request's session; 0: nothing is kept.

    Raises:
        InvalidField: names field, value and bound.
    """

    max_tokens: int = 0
    weight: int = 1
    share_private: bool = False
    session_ttl_ms: int = DEFAULT_SESSION_TTL_MS

    def __post_init__(self) -> None:
        if self.max_tokens < 0:
            raise InvalidField("kv.max_tokens", self.max_tokens, "0 (no bound) or more")
        if not 1 <= self.weight <= MAX_WEIGHT:
            raise InvalidField("kv.weight", self.weight, f"1 to {MAX_WEIGHT}")
        if not 0 <= self.session_ttl_ms <= MAX_SESSION_TTL_MS:
            bound = f"0 (no session is kept) to {MAX_SESSION_TTL_MS}"
            raise InvalidField("kv.session_ttl_ms", self.session_ttl_ms, bound)
