"""Reads the history of the gateways of a deployment."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.protobuf.duration_pb2 import Duration

from weir.gateway.v1.history_service_pb2 import (
    GetHistoryRequest,
    GetHistoryResponse,
    HistorySample,
)
from weir.gateway.v1.history_service_pb2_grpc import HistoryServiceStub
from weir_cli.administration import CALL_S, administer


def read_history(
    addresses: Sequence[str], state_dir: Path | None, window_s: float
) -> list[HistorySample]:
    """What all gateways saw, as one; the oldest first.

    Args:
        addresses: of their gRPC; none: the gateway of the stack that runs here.
        state_dir: of that stack.
        window_s: up to now.

    Raises:
        CommandError: one does not answer, or refuses.
    """
    request = GetHistoryRequest(window=_duration(window_s))

    async def call(stub: Any) -> GetHistoryResponse:
        told: GetHistoryResponse = await stub.GetHistory(request, timeout=CALL_S)
        return told

    told = [
        administer(address, state_dir, call, HistoryServiceStub) for address in addresses or ("",)
    ]
    return merged([list(one.samples) for one in told])


def merged(histories: Sequence[list[HistorySample]]) -> list[HistorySample]:
    """The samples of the first, each with the requests that the others saw at that time."""
    first, *others = histories
    for samples in others:
        for sample in samples:
            if first:
                at_us = sample.end_time.ToMicroseconds()
                near = min(first, key=lambda one: abs(one.end_time.ToMicroseconds() - at_us))
                near.flows.extend(sample.flows)
    return first


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromMicroseconds(round(seconds * 1e6))
    return duration
