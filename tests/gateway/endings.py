"""What tests of endings share: one open stream, one call, one settled account."""

from collections.abc import AsyncIterator
from typing import Any

from tests.gateway.fake_limiter import Account
from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, Gateway, eventually
from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir.common.v1.usage_pb2 import UsageQuality
from weir.gateway.v1 import inference_service_pb2 as pb

EXACT = UsageQuality.USAGE_QUALITY_EXACT
ESTIMATED = UsageQuality.USAGE_QUALITY_ESTIMATED
BODY: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "hi"}],
    "stream": True,
    "max_tokens": 50,
}


async def settled(gateway: Gateway) -> tuple[Account, LifecycleRecord]:
    """The only account, once it is settled, and the record that was sent with it."""
    await eventually(lambda: gateway.limiter.accounts and not gateway.limiter.open_accounts)
    account = gateway.limiter.only()
    assert len(account.settles) == 1
    assert not account.refunds
    return account, account.settles[0].lifecycle


class OpenStream:
    """A stream of which `tokens` tokens have arrived, the worker waiting after them."""

    def __init__(self, gateway: Gateway, tokens: int) -> None:
        self._tokens = tokens
        self._context = gateway.http.stream("POST", "/v1/chat/completions", json=BODY)
        gateway.worker.script = Script(pause_after=tokens)

    async def __aenter__(self) -> "OpenStream":
        response = await self._context.__aenter__()
        assert response.status_code == 200
        # Kept: a generator that is collected closes the connection.
        self._parts: Any = response.aiter_text()
        text = ""
        while f"t{self._tokens - 1} " not in text:
            text += await anext(self._parts)
        return self

    async def rest(self) -> str:
        """What comes until the end of the stream."""
        return "".join([part async for part in self._parts])

    async def __aexit__(self, *_: object) -> None:
        await self._parts.aclose()
        await self._context.__aexit__(None, None, None)


def grpc_call(gateway: Gateway, timeout: float | None = None, **fields: Any) -> Any:
    defaults: dict[str, Any] = {
        "model": MODEL,
        "prompt": "hello",
        "max_new_tokens": 50,
        "stream": True,
    }
    request = pb.GenerateRequest(**(defaults | fields))
    return gateway.stub.Generate(request, metadata=gateway.metadata, timeout=timeout)


async def read_until(call: AsyncIterator[Any], kind: str, times: int = 1) -> list[Any]:
    seen = []
    async for message in call:
        seen.append(message)
        times -= message.WhichOneof("event") == kind
        if times == 0:
            break
    return seen
