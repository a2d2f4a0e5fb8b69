"""Times and counts that bound every wait of the scheduler."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Deployment-wide bounds; times in microseconds.

    Attributes:
        max_attempts: dispatches of one request.
        max_queued_requests: waiting requests of the service.
        max_queued_per_tenant: waiting requests of a tenant whose policy names no number.
        arrival_us: after a dispatch, until the worker must have named the attempt; also the
            life of a grant.
        arrival_slack_us: added before an attempt counts as never arrived that is not named
            by the reports of a worker which does not stamp them.
        no_worker_us: an interactive request waits so long while no live worker serves it.
        no_worker_batch_us: likewise of the class batch.
        retry_excluded_us: a request that every live worker has failed waits so long before
            it may try one of them again.
        default_deadline_us: of an interactive request that names none.
        default_deadline_batch_us: likewise of the class batch.
        linger_us: after its deadline, until a dispatched request of which nobody has reported
            the end is aborted and forgotten.
        report_interval_us: asked of the workers.
        loss_us: silence after which a worker is lost.
        step_suspect_us: age of the last engine step from which a worker gets no new work.
        step_loss_us: age from which a worker counts as lost although it reports.
        gateway_away_us: what a gateway has running goes on so long without its stream.
        lost_kept_us: a lost worker is listed, and its orphans are aborted if it comes back.
        announce_us: between two rounds of position events.
        announce_left_us: to the next round when one has left something over.
        announce_budget: requests looked at in one round.
        prompt_weight: service of one uncached prompt token (w_p).
        output_weight: service of one output token (w_q).
    """

    max_attempts: int = 3
    max_queued_requests: int = 100_000
    max_queued_per_tenant: int = 1_000
    arrival_us: int = 2_000_000
    arrival_slack_us: int = 500_000
    no_worker_us: int = 10_000_000
    no_worker_batch_us: int = 900_000_000
    retry_excluded_us: int = 1_000_000
    default_deadline_us: int = 600_000_000
    default_deadline_batch_us: int = 86_400_000_000
    linger_us: int = 60_000_000
    report_interval_us: int = 1_000_000
    loss_us: int = 5_000_000
    step_suspect_us: int = 5_000_000
    step_loss_us: int = 30_000_000
    gateway_away_us: int = 2_000_000
    lost_kept_us: int = 600_000_000
    announce_us: int = 100_000
    announce_left_us: int = 25_000
    announce_budget: int = 200
    prompt_weight: int = 1
    output_weight: int = 2
