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


class ScalingEntry(Entry):
    """How many workers a pool may have for each model; see `weir.directory.v1.Scaling`.

    Absent fields are those of the scheduler's settings.

    Attributes:
        target_use: part of the workers' places and tokens that is to be in use.
        target_kv_use: likewise of their KV blocks.
        target_wait_ms: queue time above which more are asked for.
        down_window_ms: fewer are asked for only once no more were needed for so long.
    """

    min_workers: Annotated[int, Field(ge=0, le=10_000)] | None = None
    max_workers: Annotated[int, Field(ge=1, le=10_000)] | None = None
    target_use: Annotated[float, Field(ge=0.001, le=1, allow_inf_nan=False)] | None = None
    target_kv_use: Annotated[float, Field(ge=0.001, le=1, allow_inf_nan=False)] | None = None
    target_wait_ms: Annotated[int, Field(ge=1, le=600_000)] | None = None
    down_window_ms: Annotated[int, Field(ge=0, le=86_400_000)] | None = None


class SloEntry(Entry):
    """What the interactive answers of a tenant should take; see `weir.directory.v1.SloTargets`."""

    ttft_ms: Milliseconds | None = None
    itl_ms: Milliseconds | None = None
    e2e_ms: Milliseconds | None = None
    attainment: Annotated[float, Field(ge=0.5, le=0.999, allow_inf_nan=False)] | None = None
    shed: bool | None = None
