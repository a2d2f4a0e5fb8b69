"""How far a policy may depart from the order of arrival."""

from dataclasses import dataclass

from weir_scheduler.rules.ordering_parameters import OrderingParameters


@dataclass(frozen=True, slots=True)
class Overtaking:
    """Bounds on overtaking within one queue; `Promotion` keeps them.

    Attributes:
        promote_after_us: age from which a waiting request counts as aged.
        promote_every: while one is aged, every so-manyth dispatch goes to the longest waiting.
        max_overtaken: so many requests may overtake one that waits; None for no such cap.
    """

    promote_after_us: int
    promote_every: int = 4
    max_overtaken: int | None = None

    def adjusted(self, parameters: OrderingParameters) -> "Overtaking":
        """These bounds with what a pool sets instead.

        Raises:
            ValueError: promote_every is below 1, or another value below 0.
        """
        bounds = Overtaking(
            _first(parameters.promote_after_us, self.promote_after_us),
            _first(parameters.promote_every, self.promote_every),
            self.max_overtaken if parameters.max_overtaken is None else parameters.max_overtaken,
        )
        if bounds.promote_every < 1:
            raise ValueError(f"promote_every is {bounds.promote_every}; it must be 1 or more")
        if min(bounds.promote_after_us, bounds.max_overtaken or 0) < 0:
            raise ValueError("promote_after and max_overtaken must be 0 or more")
        return bounds


def _first(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value
