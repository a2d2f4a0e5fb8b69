"""Who hears from an engine."""

from typing import Protocol

from weir_sim.fleet.sequence import SimSequence


class EngineListener(Protocol):
    """Who is told what comes of steps; must not call back into the engine."""

    def first_token(self, sequence: SimSequence) -> None:
        """A sequence's first token was sampled."""

    def prefilled(self, sequence: SimSequence) -> bool:
        """Its prompt is computed and its first token sampled; True takes it out of the engine."""

    def ended(self, sequence: SimSequence, *, completed: bool) -> None:
        """It has left the engine: it is complete, or was aborted."""

    def stepped(self) -> None:
        """A flight of steps has landed."""
