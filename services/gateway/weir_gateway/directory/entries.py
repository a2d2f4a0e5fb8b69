"""What limits and parameters look like in the directory file."""

from typing import Annotated, Literal, Self

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

COUNTED = ("requests", "tokens", "input_tokens", "output_tokens")
LEASED = ("concurrency", "streams")
CONTEXT = ("context_tokens", "prompt_tokens", "max_new_tokens")


class Entry(BaseModel):
    """Base of everything in the file: unknown fields are refused, nothing is coerced."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class LimitEntry(Entry):
    """One limit; which fields it takes depends on the resource.

    `requests`, `tokens`, `input_tokens` and `output_tokens` take `rate` with an optional
    `burst` (default: the rate's amount). `concurrency`, `streams` and the context bounds
    `context_tokens`, `prompt_tokens` and `max_new_tokens` take `limit`.
    """

    id: Identifier | None = None
    resource: Literal[
        "requests",
        "tokens",
        "input_tokens",
        "output_tokens",
        "concurrency",
        "streams",
        "context_tokens",
        "prompt_tokens",
        "max_new_tokens",
    ]
    rate: RateText | None = None
    burst: PositiveAmount | None = None
    limit: Amount | None = None
    model: ModelName | None = None
    shadow: bool = False
    max_debt: Amount | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.resource in COUNTED:
            self._require("rate", forbidden=("limit",))
        else:
            self._require("limit", forbidden=("rate", "burst"))
        return self

    def _require(self, field: str, forbidden: tuple[str, ...]) -> None:
        if getattr(self, field) is None:
            raise ValueError(f"a limit of {self.resource} needs {field!r}")
        for name in forbidden:
            if getattr(self, name) is not None:
                raise ValueError(f"a limit of {self.resource} takes no {name!r}")

    @property
    def effective_id(self) -> str:
        """The id given, or the customary name, such as `rps`, `tpm` or `concurrency`."""
        return self.id or self._customary_id()

    def _customary_id(self) -> str:
        if self.rate is None:
            return "context" if self.resource == "context_tokens" else self.resource
        period_ms = self.rate.period_ms
        if self.resource == "requests":
            return {1_000: "rps", 60_000: "rpm"}.get(period_ms, "requests")
        if period_ms == 60_000:
            return f"{self.resource.removesuffix('tokens')}tpm"
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
