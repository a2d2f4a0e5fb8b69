"""Drives an engine over a link: commands in, one frame out a step."""

import logging

import msgspec

from weir_worker.engine.commands import Command, Stop
from weir_worker.engine.engine import Engine
from weir_worker.engine.events import StepOutput
from weir_worker.engine.link import Link, LinkClosed

logger = logging.getLogger(__name__)

HEARTBEAT_S = 0.5


class EngineLoop:
    """The engine's thread of execution.

    While there is work it steps without pause and sends a frame a step; idle, it waits for
    commands and sends a heartbeat, so that a frozen engine can be told from an idle one. Where
    steps are computed on another device, a frame is encoded and sent while the next step runs.
    """

    def __init__(self, engine: Engine, link: Link, *, heartbeat_s: float = HEARTBEAT_S) -> None:
        self._engine = engine
        self._link = link
        self._heartbeat_s = heartbeat_s
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(list[Command])
        self._stopping = False
        self._unsent: StepOutput | None = None

    def run(self) -> None:
        """Work until a `Stop`, or until the server process is gone."""
        try:
            while not self._stopping:
                commands = self._receive()
                for command in commands:
                    self._engine.apply(command)
                    self._stopping = self._stopping or isinstance(command, Stop)
                busy = self._engine.has_work()
                step = self._engine.step(self._meanwhile) if busy else self._engine.heartbeat()
                self._deliver()
                self._unsent = step
                if self._stopping or not (self._engine.overlaps and self._engine.has_work()):
                    self._deliver()
        except LinkClosed:
            logger.info("the server process is gone; the engine ends")

    def _deliver(self) -> None:
        if self._unsent is not None:
            frame = self._encoder.encode(self._unsent)
            self._unsent = None
            self._link.send(frame)

    def _meanwhile(self) -> None:
        try:
            self._deliver()
        except LinkClosed:
            # Not the fault of the step that runs; the next look at the link finds it again.
            logger.debug("the server process is gone while a step runs")

    def _receive(self) -> list[Command]:
        busy = self._engine.has_work() or self._engine.looks
        timeout_s = 0.0 if busy else self._heartbeat_s
        commands: list[Command] = []
        for frame in self._link.receive(timeout_s):
            commands.extend(self._decoder.decode(frame))
        return commands
