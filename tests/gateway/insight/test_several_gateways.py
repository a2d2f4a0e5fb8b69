"""Any gateway explains the requests of all, and what none remembers is told by the ledger."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
import pytest_asyncio

from tests.gateway.harness import Gateway, running_gateway
from tests.gateway.insight.asking import ADMIN_SECRET, explain, kinds, listed, said
from weir.common.v1.lifecycle_pb2 import Outcome
from weir.gateway.v1.insight_service_pb2 import RequestState
from weir_gateway.insight.room import InsightRoom

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[list[Gateway]]:
    """Two gateways that share a state; each has fakes of its own around it."""
    folder = tmp_path_factory.mktemp("pair")
    settings: dict[str, Any] = {
        "admin_secret": ADMIN_SECRET,
        "state_url": f"sqlite:///{folder}/state.sqlite",
    }
    async with AsyncExitStack() as stack:
        gateways = []
        for name in ("a", "b"):
            (folder / name).mkdir()
            running = running_gateway(folder / name, **settings)
            gateways.append(await stack.enter_async_context(running))
        # The beats of their own come every 10 s.
        while not all(room(gateway)._register.others for gateway in gateways):
            for gateway in gateways:
                await room(gateway)._register.beat()
        yield gateways


def room(gateway: Gateway) -> InsightRoom:
    assert gateway.app.edge is not None
    return gateway.app.edge.insight


async def made(gateway: Gateway, **fields: Any) -> str:
    return str((await gateway.chat(**({"max_tokens": 3} | fields))).headers["x-request-id"])


async def test_a_gateway_tells_of_the_requests_of_another(pair: list[Gateway]) -> None:
    one, other = pair
    answered, bad = await made(one), await made(one, max_tokens=0)
    told = await explain(other, answered)
    assert kinds(told)[-1] == "SETTLED"
    assert told.gateway_id == (await explain(one, answered)).gateway_id
    assert told.gateway_id != (await explain(other, await made(other))).gateway_id
    told = await explain(other, bad, other.key.secret)
    assert told.state == RequestState.REQUEST_STATE_REFUSED
    assert told.subject.tenant_id == "acme"
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await explain(other, answered, other.other_key.secret)
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


async def test_lists_hold_the_requests_of_all_gateways(pair: list[Gateway]) -> None:
    ids = [await made(gateway) for gateway in (*pair, *pair, *pair)]
    for gateway in pair:
        first = await listed(gateway, page_size=4)
        assert [one.request_id for one in first.requests] == ids[:1:-1]
        second = await listed(gateway, page_size=4, page_token=first.next_page_token)
        assert [one.request_id for one in second.requests][:2] == ids[1::-1]
        assert not first.missing


async def test_a_gateway_that_does_not_answer_is_named(pair: list[Gateway]) -> None:
    one, _ = pair
    register = room(one)._register
    alive = dict(register.others)
    register.others = alive | {"gw_dead": "127.0.0.1:1"}
    try:
        answer = await listed(one)
        assert answer.requests
        assert len(answer.missing) == 1
        assert kinds(await explain(one, await made(one)))
        # Of what it may remember, nobody says that there is none.
        request_id = await made(one)
        trail = room(one).book.find(request_id)
        assert trail is not None
        room(one).book._drop(trail)
        silent = "1 of the gateways did not answer, and may remember it"
        assert silent in (await explain(one, request_id)).missing[0]
        for unknown, secret in (("req_none", ADMIN_SECRET), (request_id, one.other_key.secret)):
            with pytest.raises(grpc.aio.AioRpcError, match=silent) as refused:
                await explain(one, unknown, secret)
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    finally:
        register.others = alive


async def test_what_no_gateway_remembers_is_told_by_the_ledger(pair: list[Gateway]) -> None:
    one, _ = pair
    request_id = await made(one)
    book = room(one).book
    trail = book.find(request_id)
    assert trail is not None
    book._drop(trail)
    for secret in (ADMIN_SECRET, one.key.secret):
        told = await explain(one, request_id, secret)
        assert told.state == RequestState.REQUEST_STATE_ENDED
        assert not told.events
        assert told.lifecycle.outcome == Outcome.OUTCOME_OK
        assert told.charge.usage.completion_tokens == 3
        assert "no gateway remembers it any more" in told.missing[0]
        assert "The ledger charges" in said(told)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await explain(one, request_id, one.other_key.secret)
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_gateway_that_leaves_takes_its_row_away(pair: list[Gateway]) -> None:
    one, other = pair
    await room(other)._register.stop()
    while room(one)._register.others:
        await room(one)._register.beat()
