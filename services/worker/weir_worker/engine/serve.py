"""Builds an engine and runs its loop over a socket; the same in a process and in a thread."""

import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from weir_core.errors import Reason, WeirError
from weir_worker.engine.engine import Engine
from weir_worker.engine.events import EngineMessage, Failure, Ready, StartFailed
from weir_worker.engine.link import LinkClosed, SocketLink
from weir_worker.engine.loop import EngineLoop

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StartedEngine:
    """An engine and what to tell its server process about it."""

    engine: Engine
    ready: Ready


def serve_engine(sock: socket.socket, build: Callable[[], StartedEngine]) -> bool:
    """Run an engine until it is stopped or the other end of the socket is gone.

    A failure to build it is sent as `StartFailed`.

    Returns:
        Whether the engine had started.
    """
    link = SocketLink(sock)
    try:
        started = _build(link, build)
        if started is None:
            return False
        link.send(_encode(started.ready))
        EngineLoop(started.engine, link).run()
        return True
    except LinkClosed:
        return True
    finally:
        link.close()


def _build(link: SocketLink, build: Callable[[], StartedEngine]) -> StartedEngine | None:
    try:
        return build()
    except WeirError as error:
        failure = Failure.of(error)
    except Exception as error:
        logger.exception("the engine could not start")
        failure = Failure(Reason.INTERNAL, f"{type(error).__name__}: {error}")
    link.send(_encode(StartFailed(failure)))
    return None


def _encode(message: EngineMessage) -> bytes:
    return msgspec.msgpack.encode(message)
