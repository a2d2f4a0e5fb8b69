"""What a diagnosis looks at: the time that is asked about, and the time before."""

from dataclasses import dataclass
from functools import cached_property

from weir.gateway.v1.history_service_pb2 import HistorySample, WorkerSample
from weir_cli.doctor.waiting import Waiting, waiting_in
from weir_cli.doctor.window import Window


@dataclass(frozen=True)
class Evidence:
    """Two windows of one model, or of all.

    Attributes:
        recent: that is asked about.
        baseline: before it.
    """

    recent: Window
    baseline: Window

    @cached_property
    def waiting(self) -> Waiting:
        """Recently."""
        return waiting_in(self.recent)

    @cached_property
    def waited(self) -> Waiting:
        """Before."""
        return waiting_in(self.baseline)

    @property
    def newest(self) -> HistorySample | None:
        """The last sample that asked the far parts."""
        read = [sample for sample in self.recent.samples if sample.far_read]
        return read[-1] if read else None

    @property
    def a_look_earlier(self) -> "Evidence | None":
        """The same without the newest look at the far parts; None where there is no other."""
        newest = self.newest
        samples = [*self.baseline.samples, *self.recent.samples]
        earlier = [sample for sample in samples if sample.far_read and sample is not newest]
        if not earlier:
            return None
        recent = [sample for sample in self.recent.samples if sample is not newest]
        seen = any(sample.far_read for sample in recent)
        return Evidence(Window(recent if seen else earlier[-1:], self.recent.model), self.baseline)

    @property
    def workers(self) -> list[WorkerSample]:
        """As they are now."""
        newest = self.newest
        model = self.recent.model
        found = newest.workers if newest is not None else ()
        return [one for one in found if model in ("", one.view.registration.model)]

    def of(self, *, model: str = "", tenant: str = "") -> "Evidence":
        """The same, of one model or tenant."""
        return Evidence(
            self.recent.of(model=model, tenant=tenant), self.baseline.of(model=model, tenant=tenant)
        )

    def models(self) -> list[str]:
        """Those that had requests."""
        flows = (*self.recent.flows, *self.baseline.flows)
        return sorted({flow.model for flow in flows if flow.model})
