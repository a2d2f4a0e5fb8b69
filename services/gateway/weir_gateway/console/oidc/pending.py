"""Logins that are under way at the provider: kept by the browsers that began them."""

import hashlib
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

from weir_core.clock import Clock

_LONGEST_US = 600 * 1_000_000
_EARLY_US = 60 * 1_000_000
_MOST = 1_000


@dataclass(frozen=True, slots=True)
class Attempt:
    """One of them. What the provider sees follows from what the browser holds, and not back.

    Attributes:
        browser: what the cookie of the browser that began it holds.
        page: where to go afterwards.
        began_us: Unix microseconds.
    """

    browser: str
    page: str
    began_us: int

    @property
    def state(self) -> str:
        """Names it towards the provider."""
        return self._secret("state")

    @property
    def nonce(self) -> str:
        """That the ID token must have."""
        return self._secret("nonce")

    @property
    def verifier(self) -> str:
        """Of PKCE; it leaves for the provider's token endpoint alone."""
        return self._secret("verifier")

    @property
    def challenge(self) -> str:
        """S256 of the verifier."""
        return _digest(self.verifier)

    def _secret(self, what: str) -> str:
        return _digest(f"weir {what} {self.browser}")


class Pending:
    """Begins them, and takes each once: any gateway takes what another began.

    Nothing is kept of those that are under way, so that nobody can push others' out.

    Args:
        clock: wall time; those of gateways may differ by a minute.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._taken: OrderedDict[str, None] = OrderedDict()

    def begin(self, page: str) -> Attempt:
        """A new one."""
        began_us = self._clock.now_us()
        place = urlsafe_b64encode(page.encode()).decode().rstrip("=")
        return Attempt(f"{secrets.token_urlsafe(32)}.{began_us}.{place}", page, began_us)

    def take(self, state: str, browser: str) -> Attempt | None:
        """The one of a state, if this browser began it, it is not too old, and not taken yet."""
        attempt = _read(browser)
        if attempt is None or not secrets.compare_digest(
            attempt.state.encode(), state.encode("utf-8", errors="surrogatepass")
        ):
            return None
        if attempt.state in self._taken:
            return None
        self._taken[attempt.state] = None
        if len(self._taken) > _MOST:
            self._taken.popitem(last=False)
        fresh = -_EARLY_US <= self._clock.now_us() - attempt.began_us < _LONGEST_US
        return attempt if fresh else None


def _read(browser: str) -> Attempt | None:
    """What a cookie says; the page is one that was checked, or of a browser's own making."""
    with suppress(ValueError):
        word, began_us, place = browser.split(".")
        page = urlsafe_b64decode(place + "=" * (-len(place) % 4)).decode()
        if len(word) >= 43 and began_us.isascii() and began_us.isdigit():
            return Attempt(browser, page, int(began_us))
    return None


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode()
