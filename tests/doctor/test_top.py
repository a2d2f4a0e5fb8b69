"""`weir top` against a real stack: once into a pipe, and live in a terminal with its keys."""

import asyncio
import os
import pty
import re
import sys
import time
from collections.abc import Callable

import pytest

from tests.doctor.clients import Clients, fresh
from tests.doctor.site import Site, parameters

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]

_LOAD = [Clients(2, fresh(100)), Clients(1, fresh(100), tenant="globex")]
_LIMITED = [Clients(9, fresh(100), tenant="limited")]
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


async def test_once_it_prints_what_goes_on_of_all_or_of_one(site: Site) -> None:
    await site.change(parameters())
    async with site.phase([*_LOAD, *_LIMITED]):
        ended = await site.weir("top", "--once")
        alone = await site.weir("top", "--once", "--tenant", "globex")
    assert ended.returncode == alone.returncode == 0, ended
    assert "globex" in alone.stdout
    assert "acme" not in alone.stdout
    told = ended.stdout
    assert re.search(r"[1-9][\d.]* tokens/s +[1-9][\d.]* requests/s +\d+ in flight", told), told
    assert re.search(r"TTFT p50 [\d.]+ m?s +p95 [\d.]+ m?s", told), told
    assert re.search(r"^ *default +null +1/1 ", told, re.MULTILINE), told
    assert re.search(r"^ *worker-1-\w+ +ready .*[#.-]{24} \d+ %", told, re.MULTILINE), told
    row = re.search(r"^ *limited .*$", told, re.MULTILINE)
    assert row is not None, told
    # Four of nine at once: the rest is refused, and the limit is nearly used up.
    assert re.search(r"limited +[\d.]+ +[\d.]+ +\d+ +\d+ +(?!0\.0)[\d.]+ ", row[0]), told
    assert "concurrency" in row[0], told


async def test_keys_of_the_live_view(site: Site) -> None:
    await site.change(parameters())
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    async with site.phase(_LOAD):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "weir_cli", "top", "--state-dir", str(site.stack.state),
            "--every", "1", stdin=theirs, stdout=theirs, stderr=theirs,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "150", "LINES": "40"},
        )  # fmt: skip
        try:
            screen = Screen(ours)
            await screen.shows(lambda text: "acme" in text and "globex" in text)
            os.write(ours, b"s")
            await screen.shows(lambda text: "sorted by requests" in text)
            os.write(ours, b"tglobex\r")
            await screen.shows(lambda text: "tenant globex" in text and "acme" not in text)
            os.write(ours, b"q")
            assert await screen.until_ended(process) == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            os.close(theirs)
            os.close(ours)


class Screen:
    """What a program writes to a terminal; each picture begins at its top."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._text = ""

    async def shows(self, good: Callable[[str], bool], timeout_s: float = 60.0) -> None:
        """Waits for a whole picture of that kind."""
        ends_at = time.monotonic() + timeout_s
        while time.monotonic() < ends_at:
            if not self._read():
                await asyncio.sleep(0.05)
            elif any(good(picture) for picture in self._pictures()):
                self._text = ""
                return
        raise AssertionError(f"not within {timeout_s} s: {self._text[-4_000:]}")

    async def until_ended(self, process: asyncio.subprocess.Process) -> int:
        """Its exit status. A terminal that nobody reads is full, and holds up who writes to it."""
        async with asyncio.timeout(60):
            ended = asyncio.create_task(process.wait())
            while not ended.done():
                self._read()
                await asyncio.sleep(0.05)
            return await ended

    def _read(self) -> bool:
        """Takes what has been written, if anything was."""
        try:
            read = os.read(self._descriptor, 65_536)
        except BlockingIOError:
            return False
        self._text += read.decode(errors="replace")
        return bool(read)

    def _pictures(self) -> list[str]:
        return [_ESCAPES.sub("", part) for part in self._text.split("\x1b[H")]
