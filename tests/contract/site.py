"""The gateway that unmodified SDKs talk to, and what it does to them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, Gateway, running_gateway, write_model_folder
from tests.gateway.tool_site import CALL, TEMPLATE, WEATHER
from weir.common.v1.sampling_pb2 import FinishReason
from weir.ratelimiter.v1.ratelimiter_service_pb2 import ReserveRequest
from weir_core.errors import LimitExceeded, Reason, Violation, WeirError
from weir_gateway.keys import NewKey, generate_key

STOP = FinishReason.FINISH_REASON_STOP
ASK: Any = [{"role": "user", "content": "Weather in Paris?"}]
TOOLS: Any = [
    {
        "type": "function",
        "function": {"name": "weather", "description": "Of a city.", "parameters": WEATHER},
    }
]
TURNS: Any = [
    *ASK,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Paris"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "21 degrees"},
]
TURNS_PROMPT = (
    'user: Weather in Paris?\nassistant: <tool_call>{"name": "weather", "arguments": '
    '{"city": "Paris"}}</tool_call>\ntool: 21 degrees\nassistant: '
)
CITY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
CITY_TEXT = '{"city": "Paris", "degrees": 21}'
# Above the longest first wait that the SDKs choose themselves, half a second.
WAIT_S = 0.7
_MAX_BODY = 100_000


@dataclass(frozen=True)
class Failure:
    """A request that must fail, and with what.

    Attributes:
        status: of HTTP.
        reason: the limiter refuses with it; None: the request itself is wrong.
        key: `own`, `unknown` or `suspended`.
        model, content, max_tokens: of the request.
    """

    status: int
    reason: Reason | None = None
    key: str = "own"
    model: str = MODEL
    content: str = "hi"
    max_tokens: int = 8

    def __str__(self) -> str:
        return str(self.status)

    @property
    def messages(self) -> Any:
        return [{"role": "user", "content": self.content}]


FAILURES = (
    Failure(400, max_tokens=-1),
    Failure(401, key="unknown"),
    Failure(403, key="suspended"),
    Failure(404, model="no-such-model"),
    Failure(409, Reason.IDEMPOTENCY_IN_PROGRESS),
    Failure(413, content="x" * (_MAX_BODY + 1)),
    Failure(422, Reason.IDEMPOTENCY_CONFLICT),
    Failure(429, Reason.TOKEN_LIMIT_EXCEEDED),
    Failure(500, Reason.INTERNAL),
    Failure(503, Reason.NO_WORKER),
)


@dataclass
class Site:
    """A running gateway as the clients see it."""

    gateway: Gateway
    keys: dict[str, NewKey]
    arrivals: list[float] = field(default_factory=list)

    @property
    def root(self) -> str:
        return f"http://{self.gateway.app.http_address}"

    @property
    def base_url(self) -> str:
        return f"{self.root}/v1"

    def secret(self, key: str = "own") -> str:
        return self.keys[key].secret

    def plays(self, *pieces: str, finish: FinishReason.ValueType = STOP, **script: Any) -> None:
        """What the model answers, a token a piece."""
        self.gateway.worker.script = Script(pieces=list(pieces), finish=finish, **script)

    def plays_a_call(self, **script: Any) -> None:
        self.plays("Let me see. ", *CALL, **script)

    def breaks(self, *pieces: str) -> None:
        """The engine fails after so much."""
        failed = FinishReason.FINISH_REASON_ERROR
        self.plays(*pieces, finish=failed, error=Reason.ENGINE_FAILED, step_s=0.02)

    def fails(self, failure: Failure) -> None:
        """Prepares the failure of whatever request comes."""
        self.refuses(None if failure.reason is None else _error(failure.reason), times=10**9)

    def refuses(self, error: WeirError | None, times: int = 1) -> None:
        """Refuses the next requests, and notes when each comes, by the clock of this process."""
        self.arrivals.clear()

        def refuse(_: ReserveRequest) -> WeirError | None:
            self.arrivals.append(asyncio.get_running_loop().time())
            return error if len(self.arrivals) <= times else None

        self.gateway.limiter.refuse = refuse

    @property
    def waits(self) -> list[float]:
        """Seconds between the requests that came."""
        return [
            later - earlier
            for earlier, later in zip(self.arrivals, self.arrivals[1:], strict=False)
        ]

    @property
    def prompt(self) -> str:
        """What the worker got last: each byte is a token."""
        edge = self.gateway.app.edge
        assert edge is not None
        folder = self.gateway.document["models"][0]["versions"][0]["folder"]
        text = edge.texts.loaded(folder)
        assert text is not None
        return text.decode(list(self.gateway.worker.specs[-1].prompt_token_ids))

    @property
    def last(self) -> Any:
        """The worker's last order."""
        return self.gateway.worker.specs[-1]


def token_limit(retry_after_s: float | None) -> LimitExceeded:
    """A refusal of the tenant's tokens a minute."""
    return _limited(Reason.TOKEN_LIMIT_EXCEEDED, "tpm", retry_after_s)


def budget(retry_after_s: float) -> LimitExceeded:
    """A refusal for the rest of the day: nobody should try again by himself."""
    return _limited(Reason.BUDGET_EXHAUSTED, "budget", retry_after_s)


@asynccontextmanager
async def contract_site(folder: Path) -> AsyncIterator[Site]:
    """A gateway with a model that knows tools, and a suspended tenant."""
    model = write_model_folder(folder / "hermes")
    (model / "chat_template.jinja").write_text(TEMPLATE)
    suspended = generate_key("dev")

    def change(document: dict[str, Any]) -> None:
        versions = [{"version": "v1", "folder": str(model)}]
        document["models"][0] |= {"versions": versions, "max_context": 2_000}
        document["models"][0]["parameters"]["default_max_new_tokens"] = 200
        document["tenants"].append(
            {
                "id": "sleeper",
                "plan": "team",
                "suspended": True,
                "users": [{"id": "bob"}],
                "keys": [{"id": suspended.id, "user": "bob", "hash": suspended.hash.hex()}],
            }
        )

    settings: dict[str, Any] = {"max_body_bytes": _MAX_BODY}
    settings["state_url"] = f"sqlite:///{folder}/state.sqlite"
    async with running_gateway(folder, change=change, **settings) as gateway:
        keys = {"own": gateway.key, "unknown": generate_key("dev"), "suspended": suspended}
        yield Site(gateway, keys)


async def in_thread(call: Callable[[], Any]) -> Any:
    """Runs a client that blocks beside the gateway."""
    return await asyncio.to_thread(call)


def _limited(reason: Reason, limit_type: str, retry_after_s: float | None) -> LimitExceeded:
    violation = Violation(
        limit_id=f"tenant:acme/{limit_type}",
        limit_type=limit_type,
        resource="tokens",
        layer="tenant",
        limit=60_000,
        used=59_800,
        requested=448,
        reset_time_ms=1_900_000_000_000,
        knob=f"limit `{limit_type}` of plan team",
    )
    return LimitExceeded(reason, f"{limit_type} is used", [violation], retry_after_s=retry_after_s)


def _error(reason: Reason) -> WeirError:
    if reason is Reason.TOKEN_LIMIT_EXCEEDED:
        return token_limit(WAIT_S)
    return WeirError(reason, "as the test wants")
