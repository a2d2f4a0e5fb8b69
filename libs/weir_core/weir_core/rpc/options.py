"""gRPC channel arguments of both ends; each value with the reason for it."""

from collections.abc import Mapping, Sequence

DEFAULT_MAX_MESSAGE_BYTES = 8 * 1024 * 1024

ChannelArgs = list[tuple[str, int | str]]

# A dead peer is noticed within 40 s. The server accepts pings every 10 s, so that a client's
# 30 s never meets GOAWAY too_many_pings.
_KEEPALIVE: Mapping[str, int] = {
    "grpc.keepalive_time_ms": 30_000,
    "grpc.keepalive_timeout_ms": 10_000,
    "grpc.keepalive_permit_without_calls": 1,
    "grpc.http2.max_pings_without_data": 0,
}

# Without these a sender writes some 4 MB (20,000 frames of 200 bytes) ahead of a reader that
# has stopped; with them it blocks after about 100 kB.
_BACK_PRESSURE: Mapping[str, int] = {
    "grpc.http2.bdp_probe": 0,
    "grpc.http2.lookahead_bytes": 65_536,
}

# Rich error details travel in trailers; the default soft limit of 8 KiB is tight for them.
_METADATA: Mapping[str, int] = {"grpc.max_metadata_size": 32 * 1024}

_SERVER: Mapping[str, int] = {
    "grpc.http2.min_recv_ping_interval_without_data_ms": 10_000,
    "grpc.http2.min_ping_interval_without_data_ms": 10_000,
    # The default shares a port silently between two processes: a second instance started by
    # mistake would take half of the calls.
    "grpc.so_reuseport": 0,
}

# The defaults wait up to 120 s before a restarted peer is tried again. The smallest of them is
# also how long one attempt to connect may take: a peer that got no processor for a second or two
# is there.
_RECONNECT: Mapping[str, int] = {
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.min_reconnect_backoff_ms": 3_000,
    "grpc.max_reconnect_backoff_ms": 2_000,
}


def server_options(
    *,
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    extra: Sequence[tuple[str, int | str]] = (),
) -> ChannelArgs:
    """Options of a server; `extra` overrides by name."""
    return _merged(_KEEPALIVE, _BACK_PRESSURE, _METADATA, _SERVER, _sizes(max_message_bytes), extra)


def channel_options(
    *,
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    extra: Sequence[tuple[str, int | str]] = (),
) -> ChannelArgs:
    """Options of a client channel; `extra` overrides by name."""
    return _merged(
        _KEEPALIVE, _BACK_PRESSURE, _METADATA, _RECONNECT, _sizes(max_message_bytes), extra
    )


def _sizes(max_message_bytes: int) -> dict[str, int]:
    return {
        "grpc.max_receive_message_length": max_message_bytes,
        "grpc.max_send_message_length": max_message_bytes,
    }


def _merged(*parts: Mapping[str, int] | Sequence[tuple[str, int | str]]) -> ChannelArgs:
    merged: dict[str, int | str] = {}
    for part in parts:
        merged.update(part)
    return list(merged.items())
