"""What the parts of a run share."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weir_core.clock import ManualClock
from weir_sim.core.events import Events
from weir_sim.core.journal import Journal
from weir_sim.core.rules import SimRules
from weir_sim.core.service_meter import ServiceMeter
from weir_sim.setup import Setup
from weir_sim.workload import Workload

if TYPE_CHECKING:
    from weir_scheduler.scheduler import Scheduler
    from weir_sim.fleet.last_reports import LastReports

GATEWAY = "gateway"
"""The one gateway of a run."""


@dataclass
class Stage:
    """One run's agenda, books and configuration.

    Attributes:
        workload: what arrives.
        setup: fleet and configuration.
        events: agenda; its time is the clock's monotonic reading.
        clock: what the scheduler reads.
        rules: what it is configured with.
        journal: books of requests.
        meter: books of service.
        last_reports: what workers said last, for a placement that sees nothing else.
        link_us: from scheduler to worker and back, each way.
        told: the scheduler was told something since its last decision.
    """

    workload: Workload
    setup: Setup
    events: Events
    clock: ManualClock
    rules: SimRules
    journal: Journal
    meter: ServiceMeter
    last_reports: "LastReports"
    link_us: int
    told: bool = False
    _scheduler: "Scheduler | None" = field(default=None)

    @property
    def now_us(self) -> int:
        """The moment, microseconds since the begin of the run."""
        return self.events.now_us

    def set_scheduler(self, scheduler: "Scheduler") -> None:
        """Ends the making of the stage: the scheduler speaks through parts that need it."""
        self._scheduler = scheduler

    @property
    def scheduler(self) -> "Scheduler":
        """The scheduler, to be read."""
        assert self._scheduler is not None, "the run has made it"
        return self._scheduler

    def tell(self) -> "Scheduler":
        """The scheduler, to be told something: it decides anew at this moment."""
        self.told = True
        return self.scheduler
