"""Who is active, as metrics."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge

from weir_scheduler.leadership.leadership import Leadership


def watch_leadership(registry: CollectorRegistry, leadership: Callable[[], Leadership]) -> None:
    """Shows the role of this scheduler, and the term of its last lead."""
    Gauge(
        "weir_scheduler_active",
        "1 while this scheduler may dispatch; the sum over all schedulers is 1, or 0 for a moment",
        registry=registry,
    ).set_function(lambda: float(leadership().active()))
    Gauge(
        "weir_scheduler_leader_epoch",
        "Term in which this scheduler was active last; 0 where it is the only one",
        registry=registry,
    ).set_function(lambda: float(leadership().epoch))
