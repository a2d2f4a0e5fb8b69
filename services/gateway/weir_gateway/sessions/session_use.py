"""What requests have done with a session."""

from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class SessionUse:
    """What requests have done with a session since it was last written.

    Attributes:
        last_use_ms: of the last of them.
        tokens: of the last turn that ended well; None for none.
        homes: addresses of the workers that ran turns, by worker id.
    """

    tenant_id: str
    session_id: str
    last_use_ms: int
    tokens: int | None = None
    homes: dict[str, str] = field(default_factory=dict)

    def add(self, other: "SessionUse") -> None:
        """Takes up another use of the same session, of before or after."""
        if other.tokens is not None and (
            self.tokens is None or other.last_use_ms >= self.last_use_ms
        ):
            self.tokens = other.tokens
        self.last_use_ms = max(self.last_use_ms, other.last_use_ms)
        self.homes |= other.homes
