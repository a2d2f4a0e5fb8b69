"""Framed streams: many requests multiplexed over one long-lived bidirectional RPC.

Servers run a `FramedConnection` in their handler; clients keep a `FramedStream`. Each request
on a stream has a `Mailbox` of its own.
"""

from weir_core.rpc.framed.backoff import Backoff
from weir_core.rpc.framed.connection import FramedConnection, protobuf_size
from weir_core.rpc.framed.errors import PeerLost, StreamClosed, StreamFull
from weir_core.rpc.framed.mailbox import Mailbox
from weir_core.rpc.framed.options import FramedOptions
from weir_core.rpc.framed.stream import FramedStream
from weir_core.rpc.framed.writer import FramedWriter

__all__ = [
    "Backoff",
    "FramedConnection",
    "FramedOptions",
    "FramedStream",
    "FramedWriter",
    "Mailbox",
    "PeerLost",
    "StreamClosed",
    "StreamFull",
    "protobuf_size",
]
