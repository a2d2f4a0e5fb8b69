"""The server process's end of the connection to its engine."""

import asyncio
import socket
import struct

import msgspec

from weir_worker.engine.commands import Command
from weir_worker.engine.events import EngineMessage

_HEADER = struct.Struct("<I")
_READ_LIMIT = 4 * 1024 * 1024


class EngineConnection:
    """Length-prefixed frames over asyncio streams; commands of one loop turn share a frame."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._outbox: list[msgspec.Raw] = []
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[EngineMessage] = msgspec.msgpack.Decoder(
            EngineMessage
        )

    @classmethod
    async def open(cls, sock: socket.socket) -> "EngineConnection":
        """Take over a connected socket."""
        reader, writer = await asyncio.open_connection(sock=sock, limit=_READ_LIMIT)
        return cls(reader, writer)

    def encode(self, command: Command) -> msgspec.Raw:
        """Return a command ready to be sent.

        Encoded one by one, so that one that cannot be hurts its caller and no other.

        Raises:
            ValueError, OverflowError: a string is not Unicode, an integer not 64 bits.
        """
        return msgspec.Raw(self._encoder.encode(command))

    def send(self, command: msgspec.Raw) -> None:
        """Send an encoded command with the next turn of the event loop."""
        if not self._outbox:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outbox.append(command)

    async def receive(self) -> EngineMessage:
        """Wait for the next message.

        Raises:
            EOFError, OSError: the engine is gone.
            msgspec.MsgspecError: what came is no message.
        """
        (length,) = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
        return self._decoder.decode(await self._reader.readexactly(length))

    def close(self) -> None:
        """Close the socket."""
        self._writer.close()

    def _flush(self) -> None:
        frame = self._encoder.encode(self._outbox)
        self._outbox = []
        if not self._writer.is_closing():
            self._writer.write(_HEADER.pack(len(frame)) + frame)
