"""Whatever is sent to any RPC of any service: a status of ours in time, and nothing is left."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import hypothesis
import pytest
from hypothesis import strategies as st

from tests.authorisation.cluster import channel_of, secret_of
from tests.authorisation.site import ADMIN_SECRET
from tests.authorisation.surface import Rpc, every_rpc
from tests.authorisation.table import RPCS, Door
from tests.fuzz.messages import wires
from tests.fuzz.site import FuzzSite

_CASES, _SOAK_CASES = 300, 10_000
_HANGS_S = 20.0
_READ = 3
FAULTS = {"UNKNOWN", "INTERNAL", "DATA_LOSS"}
# Of grpc's client, which still sends requests to a call that the server has ended.
OF_THE_CLIENT = "INTERNAL Internal error from Core"
JUNK: tuple[tuple[str, str | bytes], ...] = (
    ("traceparent", "00-zz"),
    ("tracestate", "," * 300),
    ("x-request-id", '{"a": 1} ' + "r" * 900),
    ("x-trace-bin", b"\xff" * 40),
    ("weir-budget-ms", "-1"),
    ("authorization", "second"),
)
# What ends a service comes last.
LAST = ("Drain", "EraseTenant")


def _order(rpc: Rpc) -> tuple[bool, str]:
    return rpc.method.name in LAST, rpc.name


CALLED = sorted((rpc for rpc in every_rpc() if RPCS[rpc.name].door is not Door.PRIVATE), key=_order)
BY_NAME = pytest.mark.parametrize("rpc", CALLED, ids=lambda rpc: rpc.name)


@dataclass(frozen=True)
class Manner:
    """How a call is made."""

    right_key: bool
    junk: bool
    deadline_s: float
    cancel_after_s: float | None


MANNERS = st.builds(
    Manner,
    right_key=st.sampled_from([True, True, True, False]),
    junk=st.booleans(),
    deadline_s=st.sampled_from([5.0, 5.0, 5.0, 0.0, 0.001]),
    cancel_after_s=st.sampled_from([None, None, None, 0.0, 0.005]),
)


@pytest.mark.timeout(120)
@BY_NAME
def test_300_calls(site: FuzzSite, rpc: Rpc) -> None:
    fuzz(site, rpc, max(4, _CASES // len(CALLED)))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@BY_NAME
def test_10_000_calls(site: FuzzSite, rpc: Rpc) -> None:
    fuzz(site, rpc, _SOAK_CASES // len(CALLED))


def fuzz(site: FuzzSite, rpc: Rpc, cases: int) -> None:
    frames = st.lists(wires(rpc.method.input_type), min_size=1, max_size=3)
    site.begin()

    @hypothesis.settings(
        max_examples=cases,
        database=None,
        derandomize=cases < 50,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(frames=frames, manner=MANNERS)
    def run(frames: list[bytes], manner: Manner) -> None:
        told = site.run(_call(site, rpc, frames, manner), _HANGS_S + 10)
        if not (rpc.client_streaming and told == OF_THE_CLIENT):
            assert told.partition(" ")[0] not in FAULTS, told

    run()
    site.check_nothing_is_left()


async def _call(site: FuzzSite, rpc: Rpc, frames: Sequence[bytes], manner: Manner) -> str:
    """The status that the caller got, and its details."""
    metadata: list[tuple[str, str | bytes]] = [("authorization", _header(site, rpc, manner))]
    metadata += JUNK[1:5] if manner.junk else []
    given: Any = _all(frames) if rpc.client_streaming else frames[0]
    method = rpc.call(_channel(site, rpc), serialize=bytes)
    call = method(given, metadata=metadata, timeout=manner.deadline_s)
    async with asyncio.timeout(_HANGS_S):
        if manner.cancel_after_s is not None:
            await asyncio.sleep(manner.cancel_after_s)
            call.cancel()
        try:
            if not rpc.server_streaming:
                await call
                return "OK"
            for _ in range(_READ):
                if await call.read() is grpc.aio.EOF:
                    break
            call.cancel()
            return f"{(await call.code()).name} {await call.details()}"
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name} {error.details()}"
        except asyncio.CancelledError:
            if not call.cancelled():
                raise
            return "CANCELLED"


async def _all(frames: Sequence[bytes]) -> AsyncIterator[bytes]:
    for frame in frames:
        yield frame


def _channel(site: FuzzSite, rpc: Rpc) -> grpc.aio.Channel:
    if RPCS[rpc.name].door is Door.CLUSTER:
        return channel_of(site.channels, rpc.name)
    return site.gateway.channel


def _header(site: FuzzSite, rpc: Rpc, manner: Manner) -> str:
    if not manner.right_key:
        return "Bearer wrong"
    secrets = {
        Door.TENANT: site.gateway.key.secret,
        Door.VIEWER: site.gateway.key.secret,
        Door.ADMIN: ADMIN_SECRET,
        Door.CLUSTER: secret_of(rpc.name),
    }
    return f"Bearer {secrets[RPCS[rpc.name].door]}"
