"""A client asks what happened to a request by the id that its answer or error told."""

from pathlib import Path

import pytest

from tests.gateway.harness import MODEL, running_gateway
from weir.gateway.v1.insight_service_pb2 import RequestState
from weir_client import AsyncClient, InvalidRequest, NotFound


async def test_an_answer_and_an_error_are_explained_by_their_ids(tmp_path: Path) -> None:
    async with (
        running_gateway(tmp_path) as gateway,
        AsyncClient(gateway.app.grpc_address, gateway.key.secret) as client,
    ):
        answer = await client.complete(MODEL, max_new_tokens=3, prompt="hi")
        told = await client.explain(answer.request_id)
        assert told.state == RequestState.REQUEST_STATE_ENDED
        assert "3 output tokens" in told.sentences[0]
        with pytest.raises(InvalidRequest) as refused:
            await client.complete(MODEL, max_new_tokens=0, prompt="hi")
        told = await client.explain(refused.value.request_id)
        assert told.state == RequestState.REQUEST_STATE_REFUSED
        assert refused.value.message in told.sentences[0]
        with pytest.raises(NotFound):
            await client.explain("req_" + "0" * 32)
