"""What the deployment has kept of a phase: the end of the phase is decided by it alone."""

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from google.protobuf.duration_pb2 import Duration

from weir.gateway.v1.history_service_pb2 import GetHistoryRequest, HistorySample
from weir_cli.doctor.window import LIVE

if TYPE_CHECKING:
    from weir.gateway.v1.history_service_pb2_grpc import HistoryServiceAsyncStub

_READ_S = 20.0
# Of each tenant that is judged, of steps, and of looks at the workers: some more than the doctor
# needs to say anything.
_ANSWERS, _STEPS, _LOOKS = 26, 60, 3


@dataclass(frozen=True)
class Kept:
    """Samples that lie within a phase whole.

    Attributes:
        samples: the oldest first.
        tenants: that are judged.
    """

    samples: Sequence[HistorySample]
    tenants: Collection[str]

    @property
    def begin(self) -> str:
        """Of the first, in ISO 8601."""
        return _written(_begin_us(self.samples[0]))

    @property
    def end(self) -> str:
        """Of the last."""
        return _written(self.samples[-1].end_time.ToMicroseconds())

    @property
    def answers(self) -> dict[str, int]:
        """By tenant."""
        counts = dict.fromkeys(self.tenants, 0)
        for flow in (flow for sample in self.samples for flow in sample.flows):
            if flow.tenant_id in counts:
                counts[flow.tenant_id] += flow.ttft.count
        return counts

    @property
    def steps(self) -> int:
        """Of workers that take work."""
        return sum(
            worker.work.steps
            for sample in self.samples
            for worker in sample.workers
            if worker.view.state in LIVE
        )

    @property
    def looks(self) -> int:
        """Samples with a worker that takes work."""
        return sum(
            any(worker.view.state in LIVE for worker in sample.workers) for sample in self.samples
        )

    @property
    def enough(self) -> bool:
        """Whether the doctor can judge."""
        return (
            min(self.answers.values()) >= _ANSWERS and self.steps >= _STEPS and self.looks >= _LOOKS
        )

    def __str__(self) -> str:
        return f"{self.answers} answers, {self.steps} steps, {self.looks} looks at workers"


async def kept_since(
    history: "HistoryServiceAsyncStub", moment_us: int, tenants: Collection[str]
) -> Kept:
    """What began at `moment_us` (Unix) or later."""
    reach_s = time.time() - moment_us / 1e6 + 1
    request = GetHistoryRequest(window=Duration(seconds=math.ceil(reach_s)))
    told = await history.GetHistory(request, timeout=_READ_S)
    return Kept([one for one in told.samples if _begin_us(one) >= moment_us], tenants)


def _begin_us(sample: HistorySample) -> int:
    return sample.end_time.ToMicroseconds() - sample.duration.ToMicroseconds()


def _written(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).isoformat(timespec="microseconds")
