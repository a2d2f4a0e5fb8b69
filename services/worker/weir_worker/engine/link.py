"""The engine's end of the connection to its server process."""

import select
import socket
import struct
import time
from typing import Protocol

_HEADER = struct.Struct("<I")
_CHUNK = 256 * 1024
# A reader that is further behind than this holds the engine up: computing for a client
# that does not read is wasted, and an abort must find the engine near what was delivered.
_MOST_UNSENT = 128 * 1024


class LinkClosed(Exception):
    """The other side is gone."""


class Link(Protocol):
    """Frames both ways."""

    def receive(self, timeout_s: float) -> list[bytes]:
        """Wait up to `timeout_s` for frames; 0 only looks. Raises LinkClosed."""
        ...

    def send(self, frame: bytes) -> None:
        """Send a frame; blocks only while the reader is far behind. Raises LinkClosed."""
        ...


class SocketLink:
    """Length-prefixed frames over a stream socket (`<I` length, then the frame)."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._received = bytearray()
        self._unsent = bytearray()

    def receive(self, timeout_s: float) -> list[bytes]:
        """See `Link.receive`."""
        if timeout_s > 0:
            self._poll(select.POLLIN | (select.POLLOUT if self._unsent else 0), timeout_s)
        self._flush()
        try:
            while chunk := self._socket.recv(_CHUNK):
                self._received += chunk
                if len(chunk) < _CHUNK:
                    return self._take_frames()
        except BlockingIOError:
            return self._take_frames()
        except OSError as error:
            raise LinkClosed(str(error)) from error
        raise LinkClosed("the server process closed the connection")

    def send(self, frame: bytes) -> None:
        """See `Link.send`."""
        self._unsent += _HEADER.pack(len(frame))
        self._unsent += frame
        self._flush()
        while len(self._unsent) > _MOST_UNSENT:
            self._poll(select.POLLOUT, None)
            self._flush()

    def close(self, linger_s: float = 2.0) -> None:
        """Send what is left, for at most `linger_s`, and close the socket."""
        deadline = time.monotonic() + linger_s
        try:
            while self._unsent and (left := deadline - time.monotonic()) > 0:
                self._poll(select.POLLOUT, left)
                self._flush()
        except LinkClosed:
            pass
        finally:
            self._socket.close()

    def _poll(self, events: int, timeout_s: float | None) -> None:
        # poll() and not select(): the latter fails on descriptors from 1024 on.
        poll = select.poll()
        poll.register(self._socket, events)
        poll.poll(None if timeout_s is None else timeout_s * 1000)

    def _flush(self) -> None:
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent)
                del self._unsent[:sent]
        except BlockingIOError:
            return
        except OSError as error:
            raise LinkClosed(str(error)) from error

    def _take_frames(self) -> list[bytes]:
        frames = []
        start = 0
        while len(self._received) - start >= _HEADER.size:
            (length,) = _HEADER.unpack_from(self._received, start)
            end = start + _HEADER.size + length
            if len(self._received) < end:
                break
            frames.append(bytes(self._received[start + _HEADER.size : end]))
            start = end
        del self._received[:start]
        return frames
