"""How much the workers may take at once, and which bound was changed."""

from dataclasses import dataclass

from weir.gateway.v1.history_service_pb2 import WorkerSample
from weir_cli.doctor.window import LIVE, Window

BOUNDS = ("max_batch_size", "max_concurrent_requests", "max_batch_tokens", "max_step_tokens")


@dataclass(frozen=True, slots=True)
class Lowered:
    """A bound of a worker that is less than it was."""

    name: str
    before: int
    after: int


def live_workers(window: Window) -> list[WorkerSample]:
    """Those that took work at the end of a window."""
    for sample in reversed(window.samples):
        if sample.far_read:
            found = [one for one in sample.workers if one.view.state in LIVE]
            return [one for one in found if window.model in ("", one.view.registration.model)]
    return []


def left(before: Window, after: Window) -> bool:
    """Whether fewer workers take work."""
    return len(live_workers(after)) < len(live_workers(before))


def places(window: Window) -> int:
    """Answers that the workers made at once at most, at its end."""
    return sum(
        min(one.view.parameters.max_batch_size, one.view.parameters.max_concurrent_requests)
        for one in live_workers(window)
    )


def lowered(before: Window, after: Window) -> Lowered | None:
    """The bound that fell most, of the strictest worker; None if none fell."""
    falls = []
    for name in BOUNDS:
        old, new = _least(before, name), _least(after, name)
        if old and new and new < old:
            falls.append((new / old, Lowered(name, old, new)))
    return min(falls, key=lambda fall: fall[0])[1] if falls else None


def narrowing(before: Window, after: Window) -> float:
    """Times fewer of the requests that live now have a place than had one before; 1 if none."""
    if lowered(before, after) is None and not left(before, after):
        return 1.0
    now = places(after)
    return max(1.0, min(float(places(before)), after.in_flight) / now) if now else 1.0


def _least(window: Window, name: str) -> int:
    values = []
    for one in live_workers(window):
        values.append(int(getattr(one.view.parameters, name)))
        if name == "max_step_tokens" and one.view.load.max_step_tokens:
            values[-1] = min(values[-1], one.view.load.max_step_tokens)
    return min(values, default=0)
