"""What pools and targets look like in the directory file."""

from typing import Annotated, Literal

from pydantic import Field

from weir_gateway.directory.entries import Entry

Share = Annotated[int, Field(ge=1, le=1000)]
Milliseconds = Annotated[int, Field(ge=1, le=86_400_000)]


class SharesEntry(Entry):
    """How a pool's service is divided while everything waits; absent: the product's default."""

    interactive: Share | None = None
    batch: Share | None = None
    short: Share | None = None
    long: Share | None = None


class SheddingEntry(Entry):
    """Which interactive requests a busy pool refuses; see `weir.directory.v1.ShedCurve`.

    Attributes:
        begin: `from` in the file: the predicted wait, as a part of `queue_timeout_ms`, from
            which the least urgent are refused.
    """

    curve: Literal["gate", "holdback", "power"] = "gate"
    begin: Annotated[float, Field(ge=0.001, le=0.999, allow_inf_nan=False, alias="from")] = 0.5


class SloEntry(Entry):
    """What the interactive answers of a tenant should take; see `weir.directory.v1.SloTargets`."""

    ttft_ms: Milliseconds | None = None
    itl_ms: Milliseconds | None = None
    e2e_ms: Milliseconds | None = None
    attainment: Annotated[float, Field(ge=0.5, le=0.999, allow_inf_nan=False)] | None = None
    shed: bool | None = None
