"""Logins that are under way at the provider."""

import hashlib
import secrets
from base64 import urlsafe_b64encode
from collections import OrderedDict
from dataclasses import dataclass

from weir_core.clock import Clock

_LONGEST_US = 600 * 1_000_000
_MOST = 1_000


@dataclass(frozen=True, slots=True)
class Attempt:
    """One of them.

    Attributes:
        state: names it towards the provider.
        browser: what the cookie of the browser that began it holds.
        nonce: that the ID token must have.
        verifier: of PKCE.
        page: where to go afterwards.
        began_us: of the monotonic clock.
    """

    state: str
    browser: str
    nonce: str
    verifier: str
    page: str
    began_us: int

    @property
    def challenge(self) -> str:
        """S256 of the verifier."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return urlsafe_b64encode(digest).rstrip(b"=").decode()


class Pending:
    """Keeps them for ten minutes, a bounded number; each is taken once.

    Args:
        clock: time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._attempts: OrderedDict[str, Attempt] = OrderedDict()

    def begin(self, page: str) -> Attempt:
        """A new one; of too many the oldest is given up."""
        attempt = Attempt(
            state=secrets.token_urlsafe(32),
            browser=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            page=page,
            began_us=self._clock.monotonic_us(),
        )
        self._attempts[attempt.state] = attempt
        if len(self._attempts) > _MOST:
            self._attempts.popitem(last=False)
        return attempt

    def take(self, state: str, browser: str) -> Attempt | None:
        """The one of a state, if this browser began it and it is not too old."""
        attempt = self._attempts.get(state)
        if attempt is None or not secrets.compare_digest(
            attempt.browser.encode(), browser.encode("utf-8", errors="surrogatepass")
        ):
            return None
        del self._attempts[state]
        fresh = self._clock.monotonic_us() - attempt.began_us < _LONGEST_US
        return attempt if fresh else None
