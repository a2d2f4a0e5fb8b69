"""A visit to the console: a page of a browser, and all that went wrong in it."""

from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Browser, Error, Page, Request, Response

from tests.console.site import admin_secret, secrets_of
from tests.e2e.deployment import Deployment
from tests.e2e.wait import until

DESK = {"width": 1360, "height": 860}
PHONE = {"width": 360, "height": 740}
_LISTEN = """
document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`);
});
window.longest = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
}).observe({ type: "longtask" });
"""


@dataclass
class Visit:
    """A page, logged in.

    Attributes:
        expected: parts of complaints that the test itself brings about.
    """

    stack: Deployment
    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)
    bodies: list[tuple[str, str]] = field(default_factory=list)
    expected: tuple[str, ...] = ()
    longest: float = 0

    def __post_init__(self) -> None:
        page = self.page
        page.on("console", lambda said: self._said(said.type, said.text, said.location))
        page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        page.on("requestfailed", self._failed)
        page.on("response", self._answered)

    async def open(self, path: str) -> None:
        """Goes to a page of the console by its address and waits until it shows something."""
        await self.longest_task()
        await self.page.goto(f"{self.url}/console/{path}")
        await self.page.locator("main :is(.card, .stats, .notice, .empty)").first.wait_for()
        await self.page.locator("main .loading").first.wait_for(state="detached")

    async def longest_task(self) -> float:
        """Of those so far that kept a page busy, ms; one of under 50 counts as none."""
        self.longest = max(self.longest, await self.page.evaluate("window.longest ?? 0"))
        return self.longest

    async def until(self, function: str, argument: object = None) -> None:
        """Waits until a function of the page is true; Playwright's own way needs an eval there."""
        await until(lambda: self.page.evaluate(function, argument), bool, function, 60)

    async def text(self) -> str:
        """What a person can read on the page."""
        return await self.page.inner_text("body")

    async def fits(self) -> bool:
        """Whether nothing hangs over the right edge."""
        return bool(await self.page.evaluate("document.documentElement.scrollWidth <= innerWidth"))

    async def check(self) -> None:
        """Nothing was complained of, and no secret was told."""
        found = [one for one in self.complaints if not any(part in one for part in self.expected)]
        assert not found, found
        told = [*self.bodies, (self.page.url, await self.page.content())]
        for name, secret in secrets_of(self.stack).items():
            holders = [where for where, body in told if secret in body]
            assert not holders, f"{name} in {holders}"

    def _said(self, kind: str, text: str, location: object) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(f"{kind}: {text} {location}")

    def _failed(self, request: Request) -> None:
        # What a page asks for when it is left, the browser ends.
        if request.failure != "net::ERR_ABORTED":
            self.complaints.append(f"failed: {request.url} {request.failure}")

    async def _answered(self, response: Response) -> None:
        if not response.url.startswith(self.url):
            self.complaints.append(f"foreign: {response.url}")
        if response.status >= 400:
            self.complaints.append(f"{response.status}: {response.url}")
        if response.headers.get("content-type", "").startswith("application/json"):
            try:
                self.bodies.append((response.url, await response.text()))
            except Error:
                # A page that was left takes its answers along.
                return


class Visits:
    """Makes visits, and checks each at the end.

    Args:
        cookies: of those who have logged in before, by credential; kept over tests.
    """

    def __init__(self, stack: Deployment, browser: Browser, cookies: dict[str, Any]) -> None:
        self._stack = stack
        self._browser = browser
        self._cookies = cookies
        self._made: list[Visit] = []

    async def admin(self, *, theme: str = "light", phone: bool = False) -> Visit:
        """Of the administrator."""
        return await self.log_in(admin_secret(self._stack), theme=theme, phone=phone)

    async def tenant(self, tenant: str) -> Visit:
        """Of a tenant, by its key."""
        return await self.log_in(self._stack.secret(tenant))

    async def log_in(self, credential: str, *, theme: str = "light", phone: bool = False) -> Visit:
        """Types the credential into the login page; the second time its cookie is kept."""
        visit = await self.stranger(theme=theme, phone=phone)
        if credential in self._cookies:
            await visit.page.context.add_cookies(self._cookies[credential])
            await visit.open("")
            return visit
        await visit.page.goto(f"{visit.url}/console/login")
        await visit.page.fill("#credential", credential)
        await visit.page.press("#credential", "Enter")
        await visit.page.wait_for_selector(".stat")
        self._cookies[credential] = await visit.page.context.cookies()
        return visit

    async def stranger(self, *, theme: str = "light", phone: bool = False) -> Visit:
        """Of nobody who is known."""
        context = await self._browser.new_context(
            viewport=PHONE if phone else DESK,  # type: ignore[arg-type]
            color_scheme=theme,  # type: ignore[arg-type]
            reduced_motion="reduce",
        )
        context.set_default_timeout(30_000)
        await context.add_init_script(_LISTEN)
        url = f"http://{self._stack.stack.welcome.http}"
        visit = Visit(self._stack, await context.new_page(), url)
        self._made.append(visit)
        return visit

    async def close(self) -> None:
        """Ends them. Raises AssertionError for one with something to complain of."""
        try:
            for visit in self._made:
                await visit.check()
        finally:
            for visit in self._made:
                await visit.page.context.close()
