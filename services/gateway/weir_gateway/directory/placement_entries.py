"""What placement and pre-emption of a pool look like in the directory file."""

from typing import Annotated

from pydantic import Field

from weir_gateway.directory.entries import Entry


class PlacementEntry(Entry):
    """How a pool's requests are placed; see `weir.directory.v1.Placement`.

    Attributes:
        retry_ratio: refused attempts that are tried again, as a part of the dispatches.
    """

    session_wait_ms: Annotated[int, Field(ge=0, le=60_000)] | None = None
    affinity_excess: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] | None = None
    affinity_slack_tokens: Annotated[int, Field(ge=0, le=2**53 - 1)] | None = None
    retry_ratio: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    retries_per_s: Annotated[int, Field(ge=0, le=1_000)] | None = None


class PreemptionEntry(Entry):
    """Bounds of pre-emption by policy; see `weir.directory.v1.PolicyPreemption`.

    Attributes:
        max_overtake_ratio: share of the dispatches that may pre-empt.
    """

    max_overtakings: Annotated[int, Field(ge=1, le=1_000)] | None = None
    max_preemptions: Annotated[int, Field(ge=1, le=100)] | None = None
    max_overtake_ratio: Annotated[float, Field(ge=0.001, le=1, allow_inf_nan=False)] | None = None
    place_wait_ms: Annotated[int, Field(ge=10, le=60_000)] | None = None
