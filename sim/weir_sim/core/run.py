"""One run: the scheduler, its fleet and its workload on one agenda."""

import random
from collections import Counter
from collections.abc import Callable

from weir_core.clock import ManualClock
from weir_scheduler.dispatch.new_request import NewRequest, Subject
from weir_scheduler.placement.placer import Placer
from weir_scheduler.scheduler import Scheduler
from weir_sim.core.bounds import bounds_of
from weir_sim.core.events import Events
from weir_sim.core.journal import Journal
from weir_sim.core.limiter import SimLimiter
from weir_sim.core.predictions import Predictions
from weir_sim.core.queue_watch import QueueWatch
from weir_sim.core.rules import SimRules
from weir_sim.core.service_meter import ServiceMeter
from weir_sim.core.stage import GATEWAY, Stage
from weir_sim.fleet.autoscaling import Autoscaling
from weir_sim.fleet.fleet import SimFleet
from weir_sim.fleet.gateway import SimGateway
from weir_sim.fleet.last_reports import LastReportPlacer, LastReports
from weir_sim.outcome import Outcome
from weir_sim.setup import Setup
from weir_sim.workload import SimRequest, Workload

_PROGRESS_STEPS = 100


class Run:
    """Advances the virtual clock from event to event until every request has ended.

    All that happens at one moment is told to the scheduler before it decides, as in the
    product, where what arrives in one turn of the event loop is decided on together.

    Raises:
        ValueError: the workload is out of order or names a request twice.
    """

    def __init__(
        self,
        workload: Workload,
        setup: Setup,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        self._workload = workload
        self._progress = progress
        self._told_share = 0
        self._pumps = 0
        journal = Journal(keep_gaps=setup.keep_gaps)
        self._stage = stage = Stage(
            workload=workload,
            setup=setup,
            events=Events(),
            clock=ManualClock(),
            rules=SimRules(workload, setup),
            journal=journal,
            meter=ServiceMeter(setup.bounds),
            last_reports=LastReports(journal, setup.request.alpha_millis),
            link_us=round(setup.link_s * 1e6),
        )
        self._watch = QueueWatch(stage)
        self._gateway = SimGateway(stage)
        self._limiter = SimLimiter(dict(setup.limits), stage.clock) if setup.limits else None
        if self._limiter is not None:
            self._gateway.on_end.append(self._limiter.ended)
        self._predictions = Predictions()
        stage.set_scheduler(self._make_scheduler())
        self._fleet = SimFleet(stage, self._gateway)
        self._autoscaling = (
            Autoscaling(stage, self._fleet, setup.autoscale) if setup.autoscale else None
        )

    def execute(self) -> Outcome:
        """Runs to the end."""
        self._fleet.start()
        if self._autoscaling is not None:
            self._autoscaling.start()
        self._set_arrivals()
        self._sample()
        self._loop()
        self._take_sample()
        return self._outcome()

    def _make_scheduler(self) -> Scheduler:
        stage, setup = self._stage, self._stage.setup
        rng = random.Random(setup.seed)
        granularity = self._workload.prefix_granularity
        placer = (
            setup.placer(rng, granularity)
            if setup.placer is not None
            else Placer(rng=rng, granularity=granularity)
        )
        if not setup.local_increments:
            placer = LastReportPlacer(placer, stage.last_reports)
        return setup.scheduler(
            clock=stage.clock,
            rules=stage.rules,
            outbox=self._gateway,
            bounds=bounds_of(setup),
            observers=[self._watch],
            placer=placer,
            predictor=self._predictions,
        )

    def _loop(self) -> None:
        stage, requests = self._stage, len(self._workload.requests)
        events, journal = stage.events, stage.journal
        until_us = None if stage.setup.until_s is None else round(stage.setup.until_s * 1e6)
        while journal.ended < requests:
            at_us = self._next_us()
            if at_us is None or (until_us is not None and at_us > until_us):
                break
            stage.clock.advance_us(at_us - events.now_us)
            events.advance(at_us)
            events.run_due()
            self._decide()
            self._tell_progress(journal.ended, requests)

    def _next_us(self) -> int | None:
        events, wake_us = self._stage.events, self._scheduler.next_wake_us()
        next_us = events.next_us()
        if wake_us is None or next_us is None:
            return next_us if wake_us is None else max(wake_us, events.now_us)
        return min(next_us, max(wake_us, events.now_us))

    def _decide(self) -> None:
        """Pumps, if something was told or is due; what that sets for now is run as well."""
        stage, scheduler = self._stage, self._scheduler
        while True:
            wake_us = scheduler.next_wake_us()
            if not stage.told and (wake_us is None or wake_us > stage.now_us):
                return
            stage.told = False
            self._pumps += 1
            scheduler.pump()
            stage.events.run_due()

    @property
    def _scheduler(self) -> Scheduler:
        return self._stage.scheduler

    def _set_arrivals(self) -> None:
        """Sets one arrival at a time: the agenda stays as short as what is under way."""
        at_s = 0.0
        for request in self._workload.requests:
            if request.arrival_s < at_s:
                raise ValueError(
                    f"request {request.request_id!r} arrives at {request.arrival_s} s, before "
                    f"the one that precedes it in the workload ({at_s} s)"
                )
            at_s = request.arrival_s
        self._set_arrival(0)

    def _set_arrival(self, index: int) -> None:
        if index < len(self._workload.requests):
            at_us = round(self._workload.requests[index].arrival_s * 1e6)
            self._stage.events.at(at_us, lambda: self._arrive(index))

    def _arrive(self, index: int) -> None:
        request = self._workload.requests[index]
        self._stage.journal.arrived(request)
        refusal = self._limiter.refuses(request) if self._limiter is not None else None
        if refusal is None:
            self._enqueue(request)
        else:
            stage = self._stage
            stage.journal.refused_by_limiter(request.request_id, refusal, stage.now_us)
        self._set_arrival(index + 1)

    def _enqueue(self, request: SimRequest) -> None:
        subject = Subject(request.tenant_id, "", "", request.model, "", "")
        self._predictions.next = request.predicted_output
        self._stage.tell().enqueue(
            GATEWAY,
            NewRequest(
                request_id=request.request_id,
                subject=subject,
                request_class=request.request_class,
                priority=request.priority,
                prompt_tokens=request.prompt_tokens,
                max_new_tokens=request.most_new_tokens,
                session_id=request.session_id,
                prefix_hashes=request.prefix_hashes,
            ),
        )

    def _sample(self) -> None:
        self._take_sample()
        at_us = self._stage.now_us + max(1, round(self._stage.setup.sample_s * 1e6))
        self._stage.events.at(at_us, self._sample)

    def _take_sample(self) -> None:
        self._fleet.sync()
        live: Counter[str] = Counter()
        for tenant_id, service in self._scheduler.charged():
            live[tenant_id] += service
        stage = self._stage
        stage.meter.sample(stage.now_us / 1e6, live, self._watch.waiting)

    def _tell_progress(self, ended: int, requests: int) -> None:
        share = _PROGRESS_STEPS * ended // requests
        if self._progress is not None and share > self._told_share:
            self._told_share = share
            self._progress(share / _PROGRESS_STEPS)

    def _outcome(self) -> Outcome:
        stage = self._stage
        return Outcome(
            records=stage.journal.records(),
            service=stage.meter.log({request.tenant_id for request in self._workload.requests}),
            workers=self._fleet.summaries(),
            refused=dict(stage.journal.refused),
            scheduler_decisions=tuple(stage.journal.decisions),
            end_s=stage.now_us / 1e6,
            pumps=self._pumps,
            scale_events=self._autoscaling.events if self._autoscaling else (),
            gaps_s=stage.journal.gaps_s(),
        )
