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
from weir_cli.doctor.ages import ages_of
from weir_cli.doctor.window import seconds_of

DAY_S = 86_400.0
"""Of which samples are kept."""
_MARGIN_S = 120.0


def read_history(
    addresses: Sequence[str], state_dir: Path | None, window_s: float
) -> list[HistorySample]:
    """What all gateways saw, as one; the oldest first.

    Args:
        addresses: of their gRPC; none: the gateway of the stack that runs here.
        state_dir: of that stack.
        window_s: up to now; of the sample in which it begins, too.

    Raises:
        CommandError: one does not answer, or refuses.
    """
    # The gateway leaves out a sample that began earlier, and the newest is some seconds old.
    window_s = min(DAY_S, window_s + _MARGIN_S)
    request = GetHistoryRequest(window=_duration(window_s))

    async def call(stub: Any) -> GetHistoryResponse:
        told: GetHistoryResponse = await stub.GetHistory(request, timeout=CALL_S)
        return told

    told = [
        administer(address, state_dir, call, HistoryServiceStub) for address in addresses or ("",)
    ]
    return merged([list(one.samples) for one in told])


def merged(histories: Sequence[list[HistorySample]]) -> list[HistorySample]:
    """The samples of the longest, each with the requests that the others saw at that age.

    Every history ends now; a gateway that started later has a shorter one.
    """
    longest = max(histories, key=lambda samples: sum(map(seconds_of, samples)))
    ages = ages_of(longest)
    for samples in histories:
        if samples is not longest:
            _add(samples, longest, ages)
    return longest


def _add(samples: list[HistorySample], longest: list[HistorySample], ages: list[float]) -> None:
    """What one gateway saw; of several samples at one place the gauges of the newest."""
    placed: dict[int, HistorySample] = {}
    for sample, age_s in zip(samples, ages_of(samples), strict=True):
        place = min(range(len(ages)), key=lambda one: abs(ages[one] - age_s))
        if place in placed:
            for flow in placed[place].flows:
                flow.in_flight = flow.queued = 0
            longest[place].flows.extend(placed[place].flows)
        placed[place] = sample
    for place, sample in placed.items():
        longest[place].flows.extend(sample.flows)


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromMicroseconds(round(seconds * 1e6))
    return duration
