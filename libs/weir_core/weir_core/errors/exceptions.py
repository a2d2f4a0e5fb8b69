"""Domain exceptions: what every service raises, free of any transport."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir_core.errors.reasons import WIRE_CODES, Reason, WireCode


class WeirError(Exception):
    """A refusal or failure that its reader can act on.

    Attributes:
        reason: the machine-readable cause.
        message: one sentence for a person: what, the numbers, the knob. Holds no secret,
            no prompt text and no other tenant's number.
        field: path of the offending request field, if one is to blame.
        retry_after_s: seconds after which a retry may succeed; None when unknown, or when
            a retry is useless.
        metadata: short strings for `ErrorInfo.metadata`.
    """

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        field: str | None = None,
        retry_after_s: float | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.field = field
        self.retry_after_s = retry_after_s
        self.metadata = dict(metadata or {})

    @property
    def wire(self) -> WireCode:
        """The gRPC, HTTP and OpenAI codes of this reason."""
        return WIRE_CODES[self.reason]


class InvalidField(WeirError):
    """A request field is out of bounds: names the field, the value and the bound."""

    def __init__(self, field: str, value: object, bound: str) -> None:
        super().__init__(
            Reason.INVALID_FIELD,
            f"{field} is {_shown(value)}; it must be {bound}",
            field=field,
            metadata={"value": _shown(value), "bound": bound},
        )
        self.value = value
        self.bound = bound


@dataclass(frozen=True, slots=True)
class Violation:
    """One limit that a request did not fit in.

    Attributes:
        limit_id: stable id of the limit, such as `tenant:acme/tpm`.
        limit_type: `rps`, `concurrency`, `tpm`, `budget` or `context`.
        resource: exact name of what is counted, such as `tokens` or `requests_per_minute`.
        layer: `cluster`, `tenant`, `user`, `api_key` or `model`.
        limit: the bound, None in layers whose numbers are not the caller's own.
        used: units in use, None likewise.
        requested: units that this request asked for.
        reset_time_ms: Unix milliseconds at which the request would fit; 0 if never.
        knob: what to change, in a few words.
        allowance: what the limit allows, for people, such as `2 requests per second, burst 4`;
            empty where `limit` is None, or nothing more is known.
    """

    limit_id: str
    limit_type: str
    resource: str
    layer: str
    limit: int | None
    used: int | None
    requested: int
    reset_time_ms: int
    knob: str
    allowance: str = ""


class LimitExceeded(WeirError):
    """One or more limits refused the request; nothing was debited from any of them.

    Attributes:
        violations: each limit that refused. The first is the binding one: reason, message and
            every field of an answer are of it.
    """

    def __init__(
        self,
        reason: Reason,
        message: str,
        violations: Sequence[Violation],
        *,
        retry_after_s: float | None,
        field: str | None = None,
    ) -> None:
        super().__init__(reason, message, retry_after_s=retry_after_s, field=field)
        self.violations = tuple(violations)

    @property
    def binding(self) -> Violation | None:
        """The violation that the refusal is told by; None if the peer told of none."""
        return self.violations[0] if self.violations else None


# As whoever sent it writes it: in JSON, or in YAML.
_WORDS = {None: "null", True: "true", False: "false"}


def _shown(value: object, longest: int = 80) -> str:
    text = _WORDS[value] if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text)} characters)"
