"""What a policy lets be done to a request instead of refusing it."""

from dataclasses import dataclass

from weir.directory.v1.directory_pb2 import TRUNCATION_HEAD, Policy

_FLOOR = 16


@dataclass(frozen=True, slots=True)
class Rules:
    """Of one tenant.

    Attributes:
        smaller_model: the fallback of its model may serve it.
        lower_max_new_tokens: its answer may be bounded lower, down to `floor` tokens.
        cheaper_sampling: one answer may be made of several that were asked for.
        max_wait_s: in the queue, before the fallback is tried beside; None: for ever.
        truncates: the oldest turns of a conversation that is too long may be left out.
    """

    smaller_model: bool
    lower_max_new_tokens: bool
    cheaper_sampling: bool
    floor: int
    max_wait_s: float | None
    truncates: bool

    @classmethod
    def of(cls, policy: Policy) -> "Rules":
        """The rules of a tenant's policy."""
        allowed, bounds = policy.degradations, policy.degradation
        return cls(
            smaller_model="smaller_model" in allowed,
            lower_max_new_tokens="lower_max_new_tokens" in allowed,
            cheaper_sampling="cheaper_sampling" in allowed,
            floor=bounds.min_new_tokens or _FLOOR,
            max_wait_s=bounds.max_wait_ms / 1_000 if bounds.max_wait_ms else None,
            truncates=bounds.truncate == TRUNCATION_HEAD,
        )


def may_degrade(policy: Policy) -> bool:
    """Whether a policy allows anything at all."""
    return bool(policy.degradations) or policy.degradation.truncate == TRUNCATION_HEAD
