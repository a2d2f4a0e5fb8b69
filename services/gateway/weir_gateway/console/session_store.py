"""Sessions, kept by the server: the cookie is a random name and nothing else."""

import hashlib
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_gateway.console.identity import Identity

_ID_BYTES = 32
_MOST_EACH = 50
"""Of one identity; then its oldest ends, so that nobody signs others out."""


@dataclass(slots=True)
class Session:
    """One browser that has signed in.

    Attributes:
        name: digest of the cookie; what the server knows it by.
        identity: who it is.
        csrf: what every change must show beside the cookie.
        used_us, ends_us: of the monotonic clock: last call, and the end in any case.
        expire_ms: that end, Unix milliseconds.
        streams: event streams that are open.
        shared: the other gateways know it.
        seen_us, told_us: when this one last looked for it there, and told of a call.
    """

    name: str
    identity: Identity
    csrf: str
    used_us: int
    ends_us: int
    expire_ms: int
    streams: int = 0
    shared: bool = False
    seen_us: int = 0
    told_us: int = 0


class SessionStore:
    """Opens, finds and ends sessions.

    Args:
        clock: time.
        standing: raises WeirError when an identity is no longer welcome.
        idle_s: without calls.
        most_s: in any case.
        most: sessions at once.

    Attributes:
        ended: names of shared sessions that were ended here, until that is told.
    """

    def __init__(
        self,
        clock: Clock,
        standing: Callable[[Identity], None],
        *,
        idle_s: float,
        most_s: float,
        most: int,
    ) -> None:
        self._clock = clock
        self._standing = standing
        self._idle_us = round(idle_s * 1e6)
        self._most_us = round(most_s * 1e6)
        self._most = most
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self.ended: set[str] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, identity: Identity) -> tuple[str, Session]:
        """Begins a session; returns what the cookie holds, and the session.

        Raises:
            WeirError: OVERLOADED when there are too many of others.
        """
        cookie = secrets.token_urlsafe(_ID_BYTES)
        return cookie, self._begin(cookie, identity, self._most_us)

    def adopt(self, cookie: str, identity: Identity, ends_ms: int, idle_us: int) -> Session | None:
        """Takes over a session of another gateway; None if it was ended here, or does not fit."""
        if _digest(cookie) in self.ended:
            return None
        left_us = ends_ms * 1_000 - self._clock.now_us()
        try:
            session = self._begin(cookie, identity, min(left_us, self._most_us))
        except WeirError:
            return None
        session.shared = True
        session.used_us -= idle_us
        return session

    def known(self, cookie: str) -> Session | None:
        """The session of a cookie as far as it is known here; it may be over."""
        return self._sessions.get(_digest(cookie))

    def name_of(self, cookie: str) -> str:
        """What the server calls the session of a cookie."""
        return _digest(cookie)

    def _begin(self, cookie: str, identity: Identity, left_us: int) -> Session:
        self._drop_ended()
        own = [one for one in self._sessions.values() if one.identity == identity]
        for session in own[: max(0, len(own) - _MOST_EACH + 1)]:
            self.end(session)
        if len(self._sessions) >= self._most and not self._make_room(identity):
            raise WeirError(
                Reason.OVERLOADED,
                f"{self._most} sessions are open; sign out elsewhere, or raise "
                "console.max_sessions",
                retry_after_s=60,
            )
        now_us = self._clock.monotonic_us()
        session = Session(
            name=_digest(cookie),
            identity=identity,
            # Of the cookie: any gateway knows it, and no database.
            csrf=_digest(f"csrf:{cookie}"),
            used_us=now_us,
            ends_us=now_us + left_us,
            expire_ms=(self._clock.now_us() + left_us) // 1_000,
        )
        self._sessions[session.name] = session
        return session

    def find(self, cookie: str) -> Session:
        """The session of a cookie; this is a call of it.

        Raises:
            WeirError: API_KEY_MISSING: there is none (any more), with the reason.
        """
        session = self._sessions.get(_digest(cookie)) if cookie else None
        if session is None:
            raise signed_out("you are not signed in, or the session has ended; sign in")
        self.check(session)
        session.used_us = self._clock.monotonic_us()
        return session

    def check(self, session: Session) -> None:
        """Looks whether a session still lives; no call of it.

        Raises:
            WeirError: API_KEY_MISSING: why it has ended.
        """
        if session.name not in self._sessions:
            raise signed_out("the session has ended; sign in again")
        if self._over(session, self._clock.monotonic_us()):
            self.end(session)
            raise signed_out("the session has ended by time; sign in again")
        try:
            self._standing(session.identity)
        except WeirError as error:
            if error.reason is not Reason.DIRECTORY_UNAVAILABLE:
                self.end(session)
            raise signed_out(f"the session has ended: {error.message}") from None

    def is_over(self, session: Session) -> bool:
        """Whether it has ended by time."""
        return self._over(session, self._clock.monotonic_us())

    def end(self, session: Session) -> None:
        """Ends one. Idempotent."""
        if self._sessions.pop(session.name, None) is not None and session.shared:
            self.ended.add(session.name)

    def _make_room(self, identity: Identity) -> bool:
        """Ends the oldest session of the tenant that has most, if that is fair.

        It is towards a tenant that has fewer, and always towards administrators; a tenant with
        many keys or users keeps nobody out.
        """
        counts = Counter(one.identity.tenant_id for one in self._sessions.values())
        own = counts.pop("", 0) if identity.is_admin else counts[identity.tenant_id]
        counts.pop("", None)
        tenant_id, most = max(counts.items(), key=lambda item: item[1], default=("", 0))
        fair = most > 0 if identity.is_admin else most > own or tenant_id == identity.tenant_id
        if not fair or (most <= 1 and not identity.is_admin):
            return False
        oldest = next(one for one in self._sessions.values() if one.identity.tenant_id == tenant_id)
        self.end(oldest)
        return True

    def _over(self, session: Session, now_us: int) -> bool:
        return now_us >= session.ends_us or now_us - session.used_us >= self._idle_us

    def _drop_ended(self) -> None:
        now_us = self._clock.monotonic_us()
        for session in [one for one in self._sessions.values() if self._over(one, now_us)]:
            self.end(session)


def signed_out(why: str) -> WeirError:
    """There is no session."""
    return WeirError(Reason.API_KEY_MISSING, why)


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", errors="surrogatepass")).hexdigest()
