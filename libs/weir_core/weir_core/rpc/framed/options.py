"""Bounds of a framed stream."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FramedOptions:
    """Bounds of one framed stream; both ends should use the same times.

    Attributes:
        max_items: items that may wait to be sent.
        max_bytes: their summed size in bytes; a larger single item passes when it is alone.
        max_frame_items: items coalesced into one frame at most.
        max_frame_bytes: likewise in bytes; frames are (de)serialised on the event loop.
        heartbeat_s: after so long without a frame, a ping is sent.
        silence_s: a peer that was not heard for so long is lost. At least twice heartbeat_s.
        stall_s: a write that blocks for so long means that the peer has stopped reading.
        goodbye_s: how long a client that closes waits for the server to end the call.
    """

    max_items: int = 8_192
    max_bytes: int = 8 * 1024 * 1024
    max_frame_items: int = 1_024
    max_frame_bytes: int = 256 * 1024
    heartbeat_s: float = 5.0
    silence_s: float = 15.0
    stall_s: float = 15.0
    goodbye_s: float = 1.0

    def __post_init__(self) -> None:
        if self.silence_s < 2 * self.heartbeat_s:
            raise ValueError(
                f"silence_s is {self.silence_s}; it must be at least twice heartbeat_s "
                f"({self.heartbeat_s}), or one late ping loses the peer"
            )
        for name in ("max_items", "max_bytes", "max_frame_items", "max_frame_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
