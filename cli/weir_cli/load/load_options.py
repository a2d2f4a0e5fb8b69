"""What `weir bench` was asked for, as it was given; see `weir bench --help`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weir_cli.errors import CommandError
from weir_cli.load.arrivals import Arrivals
from weir_cli.load.http_target import Endpoint
from weir_cli.load.lengths import parse_lengths
from weir_cli.load.load_plan import LoadSize, drawn_plan, traced_plan
from weir_cli.load.load_request import LoadRequest
from weir_cli.load.prompts import IdPrompts, Prompts, TextPrompts, WordPrompts, read_tokenizer
from weir_cli.simulation_setup import workload
from weir_sim.traces.trace_error import TraceError
from weir_sim.traces.workload_options import WorkloadOptions

_DEFAULT_REQUESTS = 100
_MOST_IN_A_WHILE = 100_000
DEFAULT_TENANT = "default"


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """The options of the command that make the load."""

    url: str
    keys: Sequence[str]
    model: str
    endpoint: Endpoint
    rate: float
    burstiness: float
    ramp_up_s: float
    most_at_once: int
    requests: int
    duration_s: float
    inputs: str
    outputs: str
    trace: str
    format_name: str
    rate_scale: float
    tokenizer: Path | None
    ids: str
    seed: int
    warmups: int
    timeout_s: float
    ignore_eos: bool
    temperature: float
    ca: Path | None

    def tenants(self) -> dict[str, str]:
        """Key by tenant. Raises CommandError."""
        named = [text.partition("=") for text in self.keys if text]
        if len(named) < 2:
            return {DEFAULT_TENANT: self.keys[0]} if named else {DEFAULT_TENANT: ""}
        keys = {name: secret for name, mark, secret in named if mark}
        if len(keys) != len(named):
            raise CommandError("several --key need a name each, TENANT=SECRET, no name twice")
        return keys

    def plan(self) -> tuple[LoadRequest, ...]:
        """The load. Raises CommandError."""
        tenants = tuple(self.tenants())
        if not self.burstiness > 0:
            raise CommandError(f"--burstiness is {self.burstiness}; it must be above 0")
        if not self.rate > 0:
            raise CommandError(f"--request-rate is {self.rate}; it must be above 0")
        load = self._traced(tenants) if self.trace else self._drawn(tenants)
        if not load:
            raise CommandError(
                f"nothing arrives within --duration {self.duration_s:g} s; make it longer, or "
                "--request-rate higher"
            )
        return load

    def prompts(self) -> Prompts:
        """Whom prompts come from. Raises CommandError."""
        if self.ids:
            return IdPrompts(self.seed, self._ids())
        if self.tokenizer is not None:
            return TextPrompts(self.seed, read_tokenizer(self.tokenizer))
        return WordPrompts(self.seed)

    @property
    def for_a_while(self) -> bool:
        """Whether requests follow each other until the time is over, whatever their number."""
        timed = not math.isinf(self.duration_s)
        return timed and math.isinf(self.rate) and not self.requests and not self.trace

    def _size(self) -> LoadSize:
        if self.for_a_while:
            return LoadSize(_MOST_IN_A_WHILE)
        bounded = self.requests or not math.isinf(self.duration_s)
        return LoadSize(self.requests if bounded else _DEFAULT_REQUESTS, self.duration_s)

    def _drawn(self, tenants: Sequence[str]) -> tuple[LoadRequest, ...]:
        if self.for_a_while and not self.most_at_once:
            raise CommandError("--duration needs --request-rate, or --max-concurrency")
        arrivals = Arrivals(self.rate, self.burstiness, self.ramp_up_s)
        lengths = (
            parse_lengths(self.inputs, "--input-len"),
            parse_lengths(self.outputs, "--output-len"),
        )
        return drawn_plan(arrivals, [lengths], tenants, self._size(), self.seed)

    def _traced(self, tenants: Sequence[str]) -> tuple[LoadRequest, ...]:
        rate = 0.0 if math.isinf(self.rate) else self.rate
        try:
            options = WorkloadOptions(
                limit=self.requests, rate_scale=self.rate_scale, rate_rps=rate, seed=self.seed
            )
        except TraceError as error:
            raise CommandError(str(error)) from None
        load = workload(self.trace, self.format_name, options)
        return traced_plan(load, tenants, LoadSize(self.requests, self.duration_s))

    def _ids(self) -> range:
        low, _, high = self.ids.partition(":")
        if not low.isdigit() or not high.isdigit() or not int(low) < int(high):
            raise CommandError(
                f"--ids is {self.ids!r}; it must be LEAST:END, token ids of the model, such as "
                "100:40000"
            )
        if self.endpoint is Endpoint.CHAT and "://" in self.url:
            raise CommandError("--ids needs --endpoint completions: a chat takes texts alone")
        return range(int(low), int(high))
