"""What `/v1/batches` and `/v1/files` refuse, and by which name."""

import json

import openai
import pytest

from tests.gateway.batches.site import BatchSite, chat_line

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("change", "param", "told"),
    [
        ({"endpoint": "/v1/embeddings"}, "endpoint", "there are no batches"),
        ({"endpoint": "/v1/images/edits"}, "endpoint", "one of /v1/chat/completions"),
        ({"completion_window": "7d"}, "completion_window", "`24h`"),
        ({"input_file_id": "file_nothing"}, None, "there is no file 'file_nothing'"),
        ({"metadata": {"a": 1}}, "metadata.a", "a string"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata", "at most 16 pairs"),
        (
            {"output_expires_after": {"anchor": "created_at", "seconds": 1}},
            "output_expires_after.seconds",
            "from 3600",
        ),
        ({"webhook_url": "ftp://a"}, "webhook_url", "https URL"),
        ({"priority": 1}, "priority", "there is no such field"),
        ({"metadata": {"a": "\ud800"}}, "metadata", "JSON that can be written again"),
        ({"input_file_id": "a\x00b"}, None, "there is no file"),
    ],
)
async def test_a_bad_field(
    site: BatchSite, change: dict[str, object], param: str | None, told: str
) -> None:
    file_id = await site.upload([chat_line(1)])
    body = {"input_file_id": file_id, "endpoint": "/v1/chat/completions"}
    answer = await site.gateway.http.post(
        "/v1/batches",
        content=json.dumps(body | {"completion_window": "24h"} | change),
        headers={"content-type": "application/json"},
    )
    error = answer.json()["error"]
    assert answer.status_code in (400, 404)
    assert error["param"] == param
    assert told in error["message"]


async def test_ids_that_cannot_be_are_not_there(site: BatchSite) -> None:
    http = site.gateway.http
    for path in ("/v1/batches/%00", "/v1/files/%00", "/v1/files/%FF", "/v1/files/%00/content"):
        assert (await http.get(path)).status_code == 404
    assert (await http.post("/v1/batches/%00/cancel")).status_code == 404
    assert (await http.delete("/v1/files/%00")).status_code == 404
    for path in ("/v1/batches?after=%00", "/v1/files?after=%00", "/v1/files?purpose=%00"):
        assert (await http.get(path)).status_code == 400


async def test_a_file_for_something_else_is_no_input(site: BatchSite) -> None:
    client = site.gateway.openai()
    file = await client.files.create(file=b"{}", purpose="user_data")
    with pytest.raises(openai.BadRequestError) as refusal:
        await client.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
    assert "purpose `batch`" in str(refusal.value)
