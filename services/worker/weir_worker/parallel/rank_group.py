"""The other ranks, as the first one sees them: their processes and their sockets."""

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from weir_core.errors import Reason, WeirError
from weir_worker.engine.link import LinkClosed, SocketLink
from weir_worker.parallel.messages import Message, Reply

logger = logging.getLogger(__name__)

_POLL_S = 0.2
_END_S = 5.0


def end_engine(problem: str) -> None:
    """End this process at once: an operation of the group that lacks a rank cannot be left."""
    logger.critical("%s; the engine ends", problem)
    os._exit(1)


class RankGroup:
    """Ranks 1 to size - 1, each a child process. Calls `on_loss` once when one ends unasked."""

    def __init__(self, count: int, on_loss: Callable[[str], None] = end_engine) -> None:
        """Start the processes."""
        self._on_loss = on_loss
        self._lock = threading.Lock()
        self._closing = False
        self._links: list[SocketLink] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        try:
            for _ in range(count):
                self._start()
        except BaseException:
            self.close()
            raise

    def watch(self) -> None:
        """From now on, a rank that ends is a loss."""
        for rank, process in enumerate(self.processes, start=1):
            threading.Thread(
                target=self._wait_for, args=(rank, process), name=f"rank-{rank}", daemon=True
            ).start()

    def send(self, messages: Sequence[Message]) -> None:
        """Send each rank its message."""
        try:
            for link, message in zip(self._links, messages, strict=True):
                link.send(msgspec.msgpack.encode(message))
        except LinkClosed as error:
            self.lost(f"a tensor parallel rank is gone ({error})")
            raise WeirError(Reason.ENGINE_FAILED, "a tensor parallel rank is gone") from error

    def tell(self, message: Message) -> None:
        """Send all the same message."""
        self.send([message] * len(self._links))

    def replies(self, timeout_s: float) -> None:
        """Wait for every rank's answer.

        Raises:
            WeirError: one could not do it, ended, or did not answer in time.
        """
        deadline = time.monotonic() + timeout_s
        for rank, link in enumerate(self._links, start=1):
            problem = self._reply(rank, link, deadline)
            if problem:
                raise WeirError(Reason.ENGINE_FAILED, f"tensor parallel rank {rank}: {problem}")

    def lost(self, problem: str) -> None:
        """Call `on_loss`, the first time."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
        self._on_loss(problem)

    def close(self) -> None:
        """End the ranks; twice is once."""
        with self._lock:
            self._closing = True
        for link in self._links:
            link.close(linger_s=0)
        for process in self.processes:
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(_END_S)
        self._links.clear()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._links.append(SocketLink(ours))
            command = [sys.executable, "-P", "-m", "weir_worker.parallel.rank_process"]
            self.processes.append(
                subprocess.Popen(
                    [*command, str(theirs.fileno()), str(os.getpid())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                )
            )

    def _reply(self, rank: int, link: SocketLink, deadline: float) -> str:
        while time.monotonic() < deadline:
            try:
                frames = link.receive(_POLL_S)
            except LinkClosed:
                code = self.processes[rank - 1].wait(_END_S)
                return f"its process ended ({_described(code)})"
            if frames:
                return msgspec.msgpack.decode(frames[0], type=Reply).problem
        return "no answer in time"

    def _wait_for(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        self.lost(f"tensor parallel rank {rank} ended ({_described(code)})")


def _described(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
