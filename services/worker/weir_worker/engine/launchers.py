"""Two ways to start an engine: in a spawned process, or in a thread for tests."""

import asyncio
import contextlib
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable
from typing import Protocol

import msgspec

from weir_worker.engine.config import EngineConfig
from weir_worker.engine.serve import StartedEngine, serve_engine

# How long torch's threads (GNU OpenMP) spin while they wait for each other. By default for
# milliseconds, which on a machine whose cores are shared with the other services takes the
# core from the very thread that is waited for. Figures: bench/RESULTS.md.
_THREADS = {"GOMP_SPINCOUNT": "5000"}


class EngineLauncher(Protocol):
    """Starts one engine and knows how it ended."""

    async def launch(self) -> socket.socket:
        """Start the engine; return our end of its socket."""
        ...

    async def wait(self, timeout_s: float) -> str:
        """Wait for its end and describe it. Raises TimeoutError."""
        ...

    def kill(self) -> None:
        """End it at once, if that is possible; it may have ended already."""
        ...


class ProcessLauncher:
    """A spawned process, so that no event loop shares its interpreter."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._process: asyncio.subprocess.Process | None = None

    async def launch(self) -> socket.socket:
        """See `EngineLauncher.launch`."""
        ours, theirs = socket.socketpair()
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "weir_worker.engine.process",
                str(theirs.fileno()),
                str(os.getpid()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=_THREADS | os.environ,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        # A few hundred bytes into an empty socket buffer: this does not block.
        frame = msgspec.msgpack.encode(self._config)
        # A process that has died already reads nothing; who waits for its answer finds its end.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            ours.sendall(struct.pack("<I", len(frame)) + frame)
        return ours

    async def wait(self, timeout_s: float) -> str:
        """See `EngineLauncher.wait`."""
        if self._process is None:
            return "never started"
        async with asyncio.timeout(timeout_s):
            code = await self._process.wait()
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"

    def kill(self) -> None:
        """See `EngineLauncher.kill`."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()


class ThreadLauncher:
    """A thread of this process. A thread cannot be killed; it ends when its socket closes."""

    def __init__(self, build: Callable[[], StartedEngine]) -> None:
        self._build = build
        self._thread: threading.Thread | None = None

    async def launch(self) -> socket.socket:
        """See `EngineLauncher.launch`."""
        ours, theirs = socket.socketpair()
        self._thread = threading.Thread(
            target=serve_engine, args=(theirs, self._build), name="engine", daemon=True
        )
        self._thread.start()
        return ours

    async def wait(self, timeout_s: float) -> str:
        """See `EngineLauncher.wait`."""
        if self._thread is None:
            return "never started"
        await asyncio.to_thread(self._thread.join, timeout_s)
        if self._thread.is_alive():
            raise TimeoutError
        return "thread ended"

    def kill(self) -> None:
        """See `EngineLauncher.kill`."""
