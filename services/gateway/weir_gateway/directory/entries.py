"""What limits and parameters look like in the directory file."""

from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo, available_timezones

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from weir_gateway.directory.units import Rate, parse_amount, parse_rate

Amount = Annotated[int, BeforeValidator(parse_amount)]
PositiveAmount = Annotated[int, BeforeValidator(parse_amount), Field(ge=1)]
RateText = Annotated[Rate, BeforeValidator(parse_rate)]
Identifier = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$", strict=True)
]
# Models may carry an organisation, as in `HuggingFaceTB/SmolLM2-135M-Instruct`.
ModelName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$", strict=True)
]
Text = Annotated[str, StringConstraints(max_length=256, strict=True)]

COUNTED = ("requests", "tokens", "input_tokens", "output_tokens", "cost")
LEASED = ("concurrency", "streams")
CONTEXT = ("context_tokens", "prompt_tokens", "max_new_tokens")


class Entry(BaseModel):
    """Base of everything in the file: unknown fields are refused, nothing is coerced."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class LimitEntry(Entry):
    """One limit; which fields it takes depends on the resource.

    `requests`, `tokens`, `input_tokens`, `output_tokens`, `cost` (nano-units) take `rate` with
    an optional `burst` (default: the rate's amount), or `limit` with `window`. `concurrency`,
    `streams` and the context bounds `context_tokens`, `prompt_tokens`, `max_new_tokens` take
    `limit` alone.
    """

    id: Identifier | None = None
    resource: Literal[
        "requests",
        "tokens",
        "input_tokens",
        "output_tokens",
        "cost",
        "concurrency",
        "streams",
        "context_tokens",
        "prompt_tokens",
        "max_new_tokens",
    ]
    rate: RateText | None = None
    burst: PositiveAmount | None = None
    limit: Amount | None = None
    window: Literal["day", "month"] | None = None
    time_zone: str | None = None
    model: ModelName | None = None
    shadow: bool = False
    max_debt: Amount | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        windowed = self.resource in COUNTED and self.window is not None
        if self.resource in COUNTED and not windowed:
            self._require("rate", forbidden=("limit", "time_zone"))
        else:
            self._require("limit", forbidden=("rate", "burst"))
        if self.resource not in COUNTED and self.window is not None:
            raise ValueError(f"a limit of {self.resource} takes no window")
        if self.time_zone is not None and self.time_zone not in available_timezones():
            raise ValueError(f"time_zone {self.time_zone!r} is not an IANA time zone")
        return self

    def _require(self, field: str, forbidden: tuple[str, ...]) -> None:
        kind = f"a limit of {self.resource}" + (f" per {self.window}" if self.window else "")
        if getattr(self, field) is None:
            raise ValueError(f"{kind} needs {field!r}")
        for name in forbidden:
            if getattr(self, name) is not None:
                raise ValueError(f"{kind} takes no {name!r}")

    @property
    def zone(self) -> ZoneInfo:
        """Time zone of the window."""
        return ZoneInfo(self.time_zone or "UTC")

    @property
    def effective_id(self) -> str:
        """The id given, or the customary name: `rps`, `tpm`, `concurrency`, `tokens_per_day`."""
        return self.id or self._customary_id()

    def _customary_id(self) -> str:
        if self.window is not None:
            return f"{self.resource}_per_{self.window}"
        if self.rate is None:
            return "context" if self.resource == "context_tokens" else self.resource
        if self.resource == "requests":
            return {1_000: "rps", 60_000: "rpm"}.get(self.rate.period_ms, "requests")
        prefix = {"tokens": "", "input_tokens": "input_", "output_tokens": "output_"}
        if self.rate.period_ms == 60_000 and self.resource in prefix:
            return f"{prefix[self.resource]}tpm"
        return self.resource


class ParameterEntry(Entry):
    """Parameters of a model; see `weir.directory.v1.ModelParameters`. Absent: inherited."""

    default_max_new_tokens: PositiveAmount | None = None
    max_new_tokens: PositiveAmount | None = None
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=1_000_000)] | None = None
    alpha: Annotated[float, Field(ge=0.3, le=1)] | None = None
    max_batch_size: Annotated[int, Field(ge=1, le=4096)] | None = None
    max_batch_tokens: PositiveAmount | None = None
    batch_wait_ms: Annotated[int, Field(ge=0, le=10_000)] | None = None
    max_concurrent_requests: Annotated[int, Field(ge=1, le=65_536)] | None = None
    queue_timeout_ms: Annotated[int, Field(ge=1, le=86_400_000)] | None = None
    max_queued_requests: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    long_context_threshold: PositiveAmount | None = None
    max_step_tokens: PositiveAmount | None = None
    profiles: dict[str, "ParameterEntry"] = Field(default_factory=dict)
