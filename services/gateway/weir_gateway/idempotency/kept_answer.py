"""An answer as it is kept and replayed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What a door sent, whatever its protocol.

    Attributes:
        status: of HTTP, or the number of the gRPC code.
        head: headers or status details, as the door writes them.
        body: every byte of the answer; for gRPC its messages, each after its length.
    """

    status: int
    head: bytes
    body: bytes


class Transcript:
    """Collects the body of an answer while it is sent.

    Args:
        most: bytes; beyond it everything is dropped and `whole` is False.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def whole(self) -> bool:
        """Whether nothing was dropped."""
        return self._size <= self._most

    def add(self, part: bytes) -> None:
        """The next bytes."""
        self._size += len(part)
        if self.whole:
            self._parts.append(part)
        else:
            self._parts.clear()

    def body(self) -> bytes:
        """All bytes so far."""
        return b"".join(self._parts)
