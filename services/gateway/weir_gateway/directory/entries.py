"""What limits and parameters look like in the directory file."""

from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from weir_gateway.directory.money import parse_money, parse_price
from weir_gateway.directory.units import Rate, parse_amount, parse_rate, parse_time_zone

Amount = Annotated[int, BeforeValidator(parse_amount)]
PositiveAmount = Annotated[int, BeforeValidator(parse_amount), Field(ge=1)]
RateText = Annotated[Rate, BeforeValidator(parse_rate)]
TimeZone = Annotated[str, BeforeValidator(parse_time_zone)]
TokenPrice = Annotated[int, BeforeValidator(parse_price)]


def _window(shortest_ms: int, longest_ms: int) -> AfterValidator:
    """Bounds of a batch window, milliseconds."""

    def check(value: int) -> int:
        if value and not shortest_ms <= value <= longest_ms:
            raise ValueError(
                f"{value} is out of bounds; it must be 0 (no batch gathers), or from "
                f"{shortest_ms} to {longest_ms} milliseconds"
            )
        return value

    return AfterValidator(check)


BatchWait = Annotated[int, _window(2, 10)]
OfflineBatchWait = Annotated[int, _window(20, 100)]
Identifier = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$", strict=True)
]
# Models may carry an organisation, as in `HuggingFaceTB/SmolLM2-135M-Instruct`.
ModelName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$", strict=True)
]
Text = Annotated[str, StringConstraints(max_length=256, strict=True)]

COUNTED = ("requests", "tokens", "input_tokens", "output_tokens")
COST = "cost"
LEASED = ("concurrency", "streams")
IN_FLIGHT = "in_flight_tokens"
CONTEXT = ("context_tokens", "prompt_tokens", "max_new_tokens")
_LONGEST_ID = 128


class Entry(BaseModel):
    """Base of everything in the file: unknown fields are refused, nothing is coerced."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class LimitEntry(Entry):
    """One limit; which fields it takes depends on the resource.

    `requests`, `tokens`, `input_tokens` and `output_tokens` take `rate` with an optional
    `burst` (default: the rate's amount), or `limit` with `window` and an optional `time_zone`;
    `cost` takes the latter, with a `limit` in money. `concurrency`, `streams`, `in_flight_tokens`
    and the context bounds `context_tokens`, `prompt_tokens` and `max_new_tokens` take `limit`
    alone.

    Attributes:
        limit, max_debt: units of the resource; nano-units of the currency for `cost`.
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
        "in_flight_tokens",
        "context_tokens",
        "prompt_tokens",
        "max_new_tokens",
    ]
    rate: RateText | None = None
    burst: PositiveAmount | None = None
    limit: int | None = None
    window: Literal["day", "month"] | None = None
    time_zone: TimeZone | None = None
    model: ModelName | None = None
    shadow: bool = False
    max_debt: int | None = None

    @field_validator("limit", "max_debt", mode="before")
    @classmethod
    def _in_units_of_the_resource(cls, value: object, info: ValidationInfo) -> object:
        if value is None:
            return None
        return parse_money(value) if info.data.get("resource") == COST else parse_amount(value)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.resource == COST or (self.resource in COUNTED and self.window is not None):
            self._require("limit", forbidden=("rate", "burst"))
            self._require("window", forbidden=())
        elif self.resource in COUNTED:
            self._require("rate", forbidden=("limit", "time_zone"), instead="`limit` and `window`")
        else:
            self._require("limit", forbidden=("rate", "burst", "window", "time_zone"))
        if len(self.effective_id) > _LONGEST_ID:
            raise ValueError(
                f"its id by default, {self.effective_id!r}, has more than {_LONGEST_ID} "
                "characters; give it an `id`"
            )
        return self

    def _require(self, field: str, forbidden: tuple[str, ...], instead: str = "") -> None:
        kind = f"{self.resource} in a window" if self.window else self.resource
        if getattr(self, field) is None:
            other = f", or {instead}" if instead else ""
            raise ValueError(f"a limit of {kind} needs {field!r}{other}")
        for name in forbidden:
            if getattr(self, name) is not None:
                raise ValueError(f"a limit of {kind} takes no {name!r}")

    @property
    def effective_id(self) -> str:
        """The id given, or the customary one, such as `rps`, `tokens_per_day` or `tpm:large`."""
        if self.id is not None:
            return self.id
        # Ids hold no `/`, the names of models may.
        of_model = f":{self.model.replace('/', ':')}" if self.model else ""
        return f"{self._family()}{of_model}"

    def _family(self) -> str:
        if self.window is not None:
            counted = "budget" if self.resource == COST else self.resource
            return f"{counted}_per_{self.window}"
        if self.rate is None:
            return "context" if self.resource == "context_tokens" else self.resource
        period_ms = self.rate.period_ms
        if self.resource == "requests":
            return {1_000: "rps", 60_000: "rpm"}.get(period_ms, "requests")
        if period_ms == 60_000:
            return f"{self.resource.removesuffix('tokens')}tpm"
        return self.resource


class PriceEntry(Entry):
    """What a model's tokens cost: money per million tokens, read as nano-units per token."""

    input: TokenPrice
    # Absent: as `input`.
    cached_input: TokenPrice | None = None
    output: TokenPrice


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
    batch_wait_ms: BatchWait | None = None
    max_concurrent_requests: Annotated[int, Field(ge=1, le=65_536)] | None = None
    queue_timeout_ms: Annotated[int, Field(ge=1, le=86_400_000)] | None = None
    max_queued_requests: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    long_context_threshold: PositiveAmount | None = None
    max_step_tokens: PositiveAmount | None = None
    offline_batch_wait_ms: OfflineBatchWait | None = None
    offline_max_batch_tokens: PositiveAmount | None = None
    max_running_long: Annotated[int, Field(ge=1, le=65_536)] | None = None
    profiles: dict[str, "ParameterEntry"] = Field(default_factory=dict)
