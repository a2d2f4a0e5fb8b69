"""Sessions that this gateway has seen lately."""

from collections import OrderedDict
from dataclasses import replace

from weir_gateway.sessions.session import Session

_MOST = 50_000


class SessionCache:
    """A bounded map by tenant and id; the least recently used go first.

    What it holds is true as of the last deletion that was heard of: see `DeletionWatch`.

    Args:
        most: sessions.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._sessions: OrderedDict[tuple[str, str], Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, tenant_id: str, session_id: str) -> Session | None:
        """The session as it was seen last."""
        key = tenant_id, session_id
        session = self._sessions.get(key)
        if session is not None:
            self._sessions.move_to_end(key)
        return session

    def put(self, session: Session) -> None:
        """It was read from the database."""
        self._sessions[session.tenant_id, session.id] = session
        self._sessions.move_to_end((session.tenant_id, session.id))
        if len(self._sessions) > self._most:
            self._sessions.popitem(last=False)

    def used(self, tenant_id: str, session_id: str, now_ms: int, tokens: int | None) -> None:
        """A request has used it, which renews its life; `tokens` of its turn, None for none."""
        session = self._sessions.get((tenant_id, session_id))
        if session is not None:
            self._sessions[tenant_id, session_id] = replace(
                session,
                last_use_ms=max(session.last_use_ms, now_ms),
                tokens=session.tokens if tokens is None else tokens,
            )

    def drop(self, tenant_id: str, session_id: str) -> None:
        """It was deleted, or what is known of it is old."""
        self._sessions.pop((tenant_id, session_id), None)

    def drop_ended(self, now_ms: int) -> None:
        """Forgets those that have ended, as far as is known here."""
        for key, session in list(self._sessions.items()):
            if not session.lives(now_ms):
                del self._sessions[key]

    def clear(self) -> None:
        """Forgets all."""
        self._sessions.clear()
