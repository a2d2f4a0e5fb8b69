"""A stretch of the history, added up, of one model and perhaps one tenant."""

from collections.abc import Callable, Iterator, Sequence, Set
from functools import cached_property
from statistics import median

from weir.gateway.v1.history_service_pb2 import (
    Distribution,
    HistorySample,
    RequestFlow,
    WorkerSample,
)
from weir_cli.doctor.statistics import joined
from weir_cli.doctor.work import Work

Place = tuple[str, str]
"""A version of a model, and a device."""
LIVE = ("ready", "suspect")
"""States of workers that take work."""


class Window:
    """Samples that follow each other.

    Args:
        samples: the oldest first.
        model: whose requests and workers; empty for all.
        tenant: whose requests; empty for all.
    """

    def __init__(self, samples: Sequence[HistorySample], model: str = "", tenant: str = "") -> None:
        self.samples = samples
        self.model = model
        self.tenant = tenant

    def of(self, *, model: str = "", tenant: str = "") -> "Window":
        """The same stretch, of one model or tenant."""
        return Window(self.samples, model or self.model, tenant or self.tenant)

    @cached_property
    def seconds(self) -> float:
        """Its length."""
        return sum(seconds_of(sample) for sample in self.samples)

    @cached_property
    def flows(self) -> list[RequestFlow]:
        """The requests of each sample."""
        return [flow for sample in self.samples for flow in self.flows_of(sample)]

    @cached_property
    def busy_seconds(self) -> float:
        """Time in which there was something to do."""
        return sum(seconds_of(sample) for sample in self.samples if self._is_busy(sample))

    @property
    def ended(self) -> int:
        """Requests that ended, however."""
        return sum(one.count for flow in self.flows for one in flow.ended)

    @property
    def answered(self) -> int:
        """Requests that had a first token and ended."""
        return self.values("ttft").count

    @property
    def refused(self) -> int:
        """Requests that were refused by a limit; by several counts for each."""
        return sum(one.count for flow in self.flows for one in flow.refused if one.limit_id)

    @property
    def output_rate(self) -> float:
        """Output tokens a second while there was something to do."""
        return self.total("output_tokens") / self.busy_seconds if self.busy_seconds else 0.0

    @property
    def usual_output_rate(self) -> float:
        """That of the middle sample with something to do: it is the same if some stand still."""
        busy = [sample for sample in self.samples if self._is_busy(sample) and seconds_of(sample)]
        rates = [self._in(sample).output_rate for sample in busy]
        return median(rates) if rates else 0.0

    @property
    def arrival_rate(self) -> float:
        """Accepted requests a second."""
        return self.total("arrivals") / self.seconds if self.seconds else 0.0

    @property
    def hit_share(self) -> float:
        """Share of the prompt tokens of ended requests that were read from the cache."""
        prompts = self.total("prompt_tokens")
        return self.total("cached_prompt_tokens") / prompts if prompts else 0.0

    @cached_property
    def in_flight(self) -> float:
        """Requests that lived at once, on average while there was something to do."""
        return self._at_once(lambda flow: flow.in_flight)

    @cached_property
    def running(self) -> float:
        """Of these, those with a worker."""
        return self._at_once(lambda flow: flow.in_flight - flow.queued)

    @cached_property
    def work(self) -> Work:
        """What the workers did."""
        return Work([worker.work for worker in self.workers() if worker.HasField("work")])

    @property
    def places(self) -> set[Place]:
        """Where steps were made."""
        return {_place(worker) for worker in self.workers() if worker.HasField("work")}

    def work_at(self, places: Set[Place]) -> Work:
        """What the workers of these did."""
        mine = (worker for worker in self.workers() if _place(worker) in places)
        return Work([worker.work for worker in mine if worker.HasField("work")])

    def works_at(self, places: Set[Place]) -> list[Work]:
        """Likewise, of each sample in which there was any."""
        works = [self._in(sample).work_at(places) for sample in self.samples]
        return [work for work in works if work.known]

    def total(self, name: str) -> int:
        """Sum of a count of the flows."""
        return sum(getattr(flow, name) for flow in self.flows)

    def values(self, name: str) -> Distribution:
        """A distribution of the flows, of all of them."""
        return joined(getattr(flow, name) for flow in self.flows)

    def workers(self) -> Iterator[WorkerSample]:
        """The workers of each sample."""
        for sample in self.samples:
            for worker in sample.workers:
                if self.model in ("", worker.view.registration.model):
                    yield worker

    def mean_of_workers(self, read: Callable[[WorkerSample], float]) -> float:
        """Average over samples of workers that take work; 0 without any."""
        found = [read(worker) for worker in self.workers() if worker.view.state in LIVE]
        return sum(found) / len(found) if found else 0.0

    def flows_of(self, sample: HistorySample) -> list[RequestFlow]:
        """The requests of one sample."""
        return [
            flow
            for flow in sample.flows
            if self.model in ("", flow.model) and self.tenant in ("", flow.tenant_id)
        ]

    def tenants(self) -> list[str]:
        """Those that had requests, by name."""
        return sorted({flow.tenant_id for flow in self.flows if flow.tenant_id})

    def _in(self, sample: HistorySample) -> "Window":
        return Window([sample], self.model, self.tenant)

    def _at_once(self, read: Callable[[RequestFlow], int]) -> float:
        held = sum(
            seconds_of(sample) * sum(read(flow) for flow in self.flows_of(sample))
            for sample in self.samples
        )
        return held / self.busy_seconds if self.busy_seconds else 0.0

    def _is_busy(self, sample: HistorySample) -> bool:
        return any(
            flow.in_flight or flow.output_tokens or flow.arrivals or flow.ended
            for flow in self.flows_of(sample)
        )


def _place(worker: WorkerSample) -> Place:
    return worker.view.registration.model_version, worker.view.registration.gpu_id


def seconds_of(sample: HistorySample) -> float:
    """Length of a sample."""
    return float(sample.duration.ToMicroseconds() / 1e6)
