"""How the requests of a pool are placed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlacementRules:
    """Parameters of the plug-ins in `placement`, and of what is tried again.

    Attributes:
        session_wait_us: longest wait for the worker of the session, microseconds.
        affinity_excess_millis: epsilon of bounded affinity, thousandths.
        affinity_slack_tokens: its constant c, tokens.
        retry_ratio_millis: refused attempts tried again, thousandths of the dispatches.
        retries_per_s: added to them, a second.
    """

    session_wait_us: int = 100_000
    affinity_excess_millis: int = 150
    affinity_slack_tokens: int = 2_048
    retry_ratio_millis: int = 100
    retries_per_s: int = 2
