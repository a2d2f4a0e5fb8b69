"""A call that is silent for minutes outlives its keepalive pings (vLLM met GOAWAY here)."""

import asyncio
from typing import Any

import grpc
import pytest

from tests.core.support import SERVICE, echo_server, handlers
from weir_core.rpc.channel import open_channel

# Five pings of the client; a server with gRPC's own settings hangs up before.
_SILENCE_S = 165.0


async def _slow(request: bytes, context: Any) -> bytes:
    await asyncio.sleep(_SILENCE_S)
    return request


@pytest.mark.soak
async def test_case_20_a_silent_call_is_not_ended_for_its_pings() -> None:
    with_our_settings, with_grpcs_own = await asyncio.gather(_ask_ours(), _ask_a_plain_server())
    assert with_our_settings == b"still here"
    assert with_grpcs_own is grpc.StatusCode.UNAVAILABLE, "or this test could not fail"


async def _ask_ours() -> bytes:
    async with echo_server(Slow=("unary", _slow), default_deadline_s=None) as echo:
        answer: bytes = await echo.unary("Slow")(b"still here", timeout=_SILENCE_S + 30)
        return answer


async def _ask_a_plain_server() -> grpc.StatusCode:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handlers(Slow=("unary", _slow)),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with open_channel(f"127.0.0.1:{port}", name="plain") as channel:
            await channel.unary_unary(f"/{SERVICE}/Slow")(b"", timeout=_SILENCE_S + 30)
    except grpc.aio.AioRpcError as error:
        return error.code()
    finally:
        await server.stop(0)
    return grpc.StatusCode.OK
