"""The other tenants beside one, and who of them is felt."""

from dataclasses import dataclass

from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.window import Window

GREW = 1.5
"""Times what a neighbour was served before; tenants vary by less from minute to minute."""
LARGE = 0.5
"""Of all tokens served, or of all that runs: whoever takes so much is felt, grown or not."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another tenant.

    Attributes:
        name: its id.
        before, now: tokens a second that were served to it, prompts from the cache left out.
        part: of what was served to all, now.
        running: its part of all requests that ran at once.
        asked_before, asked: requests that lived at once.
    """

    name: str
    before: float
    now: float
    part: float
    running: float
    asked_before: float
    asked: float

    @property
    def grew(self) -> bool:
        """Whether it asks for more, or is given more, than before."""
        return self.now > 0 and (
            self.now >= GREW * self.before or self.asked >= GREW * self.asked_before + 1
        )

    @property
    def large(self) -> bool:
        """Whether it takes most of what there is."""
        return self.part >= LARGE or self.running >= LARGE


def neighbours_of(evidence: Evidence, tenant: str) -> list[Neighbour]:
    """Everybody else, by name."""
    names = {*evidence.recent.tenants(), *evidence.baseline.tenants()} - {tenant}
    everybody = max(1e-9, _served(evidence.recent))
    running = max(1e-9, evidence.recent.running)
    found = []
    for name in sorted(names):
        theirs = evidence.of(tenant=name)
        now = _served(theirs.recent)
        found.append(
            Neighbour(
                name,
                _served(theirs.baseline),
                now,
                now / everybody,
                theirs.recent.running / running,
                theirs.baseline.in_flight,
                theirs.recent.in_flight,
            )
        )
    return found


def culprit_of(neighbours: list[Neighbour], *, waits: bool) -> Neighbour | None:
    """Who is felt most.

    Whoever asks for more than before, or, where the tenant `waits` for its turn, takes the most.
    """
    felt = [one for one in neighbours if one.grew or (waits and one.large)]
    return max(felt, key=lambda one: (one.grew, one.now), default=None)


def _served(window: Window) -> float:
    """Prompt tokens computed and output tokens, a second."""
    prompts = window.total("prompt_tokens") - window.total("cached_prompt_tokens")
    tokens = prompts + window.total("output_tokens")
    return tokens / window.seconds if window.seconds else 0.0
