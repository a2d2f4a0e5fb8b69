"""Entry point of every rank but the first: `python -m weir_worker.parallel.rank_process FD PID`.

It does what the first rank, its parent, says over the inherited socket, in the same order, and
ends when the parent does or when anything goes wrong: ranks that computed different steps
cannot go on together.
"""

import logging
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import torch

from weir_core.errors import WeirError
from weir_core.process.parent import exit_with_parent
from weir_core.telemetry.logs import setup_logs
from weir_core.telemetry.uncaught import log_uncaught
from weir_worker.engine.link import LinkClosed, SocketLink
from weir_worker.models.llama import LlamaModel
from weir_worker.models.loader import load_model
from weir_worker.parallel.messages import Allocate, Clear, Forward, Join, Load, Message, Reply
from weir_worker.parallel.process_group import join
from weir_worker.parallel.ranks import Ranks

logger = logging.getLogger(__name__)

_IDLE_S = 60.0


class RankProcess:
    """A rank's part of the model, and its end of the socket."""

    def __init__(self, link: SocketLink) -> None:
        self._link = link
        self._decoder = msgspec.msgpack.Decoder(Message)
        self._model: LlamaModel | None = None
        self._load: Load | None = None

    def run(self) -> None:
        """Work until the first rank closes the socket."""
        while True:
            for frame in self._link.receive(_IDLE_S):
                self._do(self._decoder.decode(frame))

    def _do(self, message: Message) -> None:
        match message:
            case Load():
                self._answered(lambda: self._loaded(message))
            case Join(port, timeout_s) if self._load is not None:
                device = torch.device(self._load.device)
                join(self._load.rank, self._load.size, device, timeout_s, port=port)
            case Allocate(num_blocks, block_size) if self._model is not None:
                model = self._model
                self._answered(lambda: model.allocate_kv(num_blocks, block_size))
            case Clear(blocks) if self._model is not None:
                self._model.clear_kv(blocks)
            case Forward() if self._model is not None:
                self._model.forward(message.batch())

    def _loaded(self, load: Load) -> None:
        torch.set_num_threads(load.threads)
        self._load = load
        self._model = load_model(
            Path(load.folder),
            device=load.device,
            dtype=getattr(torch, load.dtype),
            attention=load.attention,  # type: ignore[arg-type]  # the first rank has checked it
            block_size=load.block_size,
            ranks=Ranks(load.rank, load.size),
        )

    def _answered(self, action: Callable[[], None]) -> None:
        reply = Reply()
        try:
            action()
        except WeirError as error:
            reply = Reply(error.message)
        except Exception as error:
            logger.exception("a rank failed")
            reply = Reply(f"{type(error).__name__}: {error}")
        self._link.send(msgspec.msgpack.encode(reply))


def main(descriptor: int, parent_pid: int) -> int:
    """Serve one rank; returns the exit code."""
    # Ctrl-C reaches the whole group; the ranks end with the engine, once it has drained.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    exit_with_parent(parent_pid)
    setup_logs("worker-rank")
    log_uncaught()
    link = SocketLink(socket.socket(fileno=descriptor))
    try:
        RankProcess(link).run()
    except LinkClosed:
        return 0
    except Exception:
        logger.exception("a rank failed, and with it the engine")
    return 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
