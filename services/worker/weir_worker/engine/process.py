"""Entry point of the engine process: `python -m weir_worker.engine.process FD PARENT_PID`.

The first frame on the inherited socket is the `EngineConfig`.
"""

import gc
import signal
import socket
import struct
import sys

import msgspec

from weir_core.process.parent import exit_with_parent
from weir_core.telemetry.logs import setup_logs
from weir_core.telemetry.uncaught import log_uncaught
from weir_worker.engine.config import EngineConfig
from weir_worker.engine.serve import StartedEngine, serve_engine


def main(descriptor: int, parent_pid: int) -> int:
    """Serve one engine; returns the exit code."""
    # Ctrl-C and a service manager's SIGTERM reach the whole group. The server process drains
    # and then stops the engine; requests would be lost if the engine ended by itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    exit_with_parent(parent_pid)
    setup_logs("worker-engine")
    log_uncaught()
    sock = socket.socket(fileno=descriptor)
    config = msgspec.msgpack.decode(_read_frame(sock), type=EngineConfig)
    return 0 if serve_engine(sock, lambda: _build(config)) else 1


def _build(config: EngineConfig) -> StartedEngine:
    # Imported late, so that a failing import is reported over the socket too.
    from weir_worker.engine.factory import build_engine

    started = build_engine(config)
    # What is there now stays. Looked through by the garbage collector, some 180,000 objects
    # take as long as several steps, which every stream would wait for.
    gc.collect()
    gc.freeze()
    return started


def _read_frame(sock: socket.socket) -> bytes:
    (length,) = struct.unpack("<I", sock.recv(4, socket.MSG_WAITALL))
    return sock.recv(length, socket.MSG_WAITALL)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
