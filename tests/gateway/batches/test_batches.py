"""`/v1/batches` as the `openai` SDK uses it."""

import openai
import pytest
from openai.types.responses import Response

from tests.gateway.batches.site import COMPLETIONS, RESPONSES, BatchSite, chat_line, chat_lines
from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, eventually
from weir.common.v1.sampling_pb2 import FinishReason
from weir.common.v1.subject_pb2 import RequestClass

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_batch_runs_to_its_end_in_the_order_of_its_input(site: BatchSite) -> None:
    made = await site.create(chat_lines(120), metadata={"run": "7"})
    assert (made.status, made.object, made.completion_window) == ("validating", "batch", "24h")
    assert made.expires_at == made.created_at + 86_400
    batch = await site.ended(made.id, "completed")
    assert batch.request_counts is not None
    assert batch.request_counts.model_dump() == {"total": 120, "completed": 120, "failed": 0}
    assert batch.metadata == {"run": "7"}
    assert batch.model == MODEL
    assert batch.error_file_id is None
    assert batch.errors is None
    assert batch.in_progress_at
    assert batch.finalizing_at
    assert batch.completed_at
    lines = await site.lines(batch.output_file_id)
    assert [line["custom_id"] for line in lines] == [f"line-{n}" for n in range(120)]
    assert len({line["response"]["request_id"] for line in lines}) == 120
    answer = lines[0]["response"]["body"]
    assert answer["object"] == "chat.completion"
    assert answer["usage"]["completion_tokens"] == 2
    assert batch.usage is not None
    total = sum(line["response"]["body"]["usage"]["total_tokens"] for line in lines)
    assert batch.usage.total_tokens == total
    charged = [account for account in site.gateway.limiter.accounts.values() if account.settles]
    assert len(charged) == 120
    files = site.gateway.openai().files
    assert batch.output_file_id is not None
    output = await files.retrieve(batch.output_file_id)
    assert output.purpose == "batch_output"
    assert output.expires_at == output.created_at + 30 * 86_400


async def test_its_lines_are_of_the_class_batch(site: BatchSite) -> None:
    made = await site.create(chat_lines(3, service_tier="priority"))
    await site.ended(made.id, "completed")
    classes = {getattr(enqueue, "class") for enqueue in site.gateway.scheduler.enqueued}
    assert classes == {RequestClass.REQUEST_CLASS_BATCH}


async def test_completions_and_lines_that_fail(site: BatchSite) -> None:
    def line(custom_id: str, **body: object) -> dict[str, object]:
        body = {"model": MODEL, "prompt": "hi", "max_tokens": 1} | body
        return {"custom_id": custom_id, "method": "POST", "url": COMPLETIONS, "body": body}

    made = await site.create(
        [
            line("good"),
            b"",
            line("unknown field", temprature=1),
            line("half a character", **{"\ud800\0": 1}),
            line("too long", prompt="x" * 1_000),
            line("last"),
        ],
        COMPLETIONS,
        output_expires_after={"anchor": "created_at", "seconds": 3_600},
    )
    batch = await site.ended(made.id, "completed")
    assert batch.request_counts is not None
    assert batch.request_counts.model_dump() == {"total": 5, "completed": 2, "failed": 3}
    lines = await site.lines(batch.output_file_id)
    assert [one["custom_id"] for one in lines] == ["good", "last"]
    assert lines[0]["response"]["body"]["object"] == "text_completion"
    errors = await site.lines(batch.error_file_id)
    assert [
        (one["custom_id"], one["response"]["status_code"], one["response"]["body"]["error"]["code"])
        for one in errors
    ] == [
        ("unknown field", 400, "unsupported_value"),
        ("half a character", 400, "unsupported_value"),
        ("too long", 400, "context_length_exceeded"),
    ]
    assert batch.error_file_id is not None
    file = await site.gateway.openai().files.retrieve(batch.error_file_id)
    assert file.expires_at == file.created_at + 3_600


async def test_responses(site: BatchSite) -> None:
    def line(custom_id: str, **body: object) -> dict[str, object]:
        body = {"model": MODEL, "input": "hi", "max_output_tokens": 2} | body
        return {"custom_id": custom_id, "method": "POST", "url": RESPONSES, "body": body}

    site.gateway.worker.script = Script(
        pieces=["he", "llo"], finish=FinishReason.FINISH_REASON_STOP
    )
    made = await site.create(
        [line("a"), line("b", previous_response_id="resp_1"), line("c", instructions="Be short.")],
        RESPONSES,
    )
    batch = await site.ended(made.id, "completed")
    lines = await site.lines(batch.output_file_id)
    assert [one["custom_id"] for one in lines] == ["a", "c"]
    response = Response.model_validate(lines[1]["response"]["body"])
    assert (response.output_text, response.instructions) == ("hello", "Be short.")
    assert response.status == "completed"
    (error,) = await site.lines(batch.error_file_id)
    assert "previous_response_id" in error["response"]["body"]["error"]["message"]


async def test_every_bad_line_is_told_and_nothing_runs(site: BatchSite) -> None:
    made = await site.create(
        [
            chat_line(1),
            b"{nonsense",
            chat_line(1),
            chat_line(2, model="other"),
            chat_line(3) | {"url": "/v1/completions"},
        ]
    )
    batch = await site.ended(made.id, "failed")
    assert batch.errors is not None
    assert batch.errors.data is not None
    assert [(error.line, error.code) for error in batch.errors.data] == [
        (2, "invalid_json_line"),
        (3, "duplicate_custom_id"),
        (4, "mismatched_model"),
        (5, "invalid_url"),
    ]
    assert batch.failed_at
    assert not site.gateway.worker.specs


async def test_of_many_bad_lines_the_first_100_are_told(site: BatchSite) -> None:
    made = await site.create([b"{"] * 300)
    batch = await site.ended(made.id, "failed")
    assert batch.errors is not None
    assert batch.errors.data is not None
    assert [error.line for error in batch.errors.data] == list(range(1, 101))


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([b"", b"  "], "empty_file"),
        ([chat_line(1, model="no-such-model")], "model_not_found"),
        ([chat_line(1, model="org/secret")], "model_not_found"),
    ],
)
async def test_a_file_that_cannot_be_run(site: BatchSite, lines: list[bytes], code: str) -> None:
    made = await site.create(lines)
    batch = await site.ended(made.id, "failed")
    assert batch.errors is not None
    assert batch.errors.data is not None
    assert batch.errors.data[0].code == code


async def test_more_waiting_tokens_than_the_policy_allows_are_refused(site: BatchSite) -> None:
    gateway = site.gateway
    tenant = gateway.document["tenants"][0]
    policy = {"allowed_models": [MODEL], "batch": {"max_enqueued_tokens": 500}}
    changed = [tenant | {"policy": policy}, *gateway.document["tenants"][1:]]
    await gateway.reload(gateway.document | {"tenants": changed})
    gateway.worker.script.pause_after = 1
    try:
        first = await site.create(chat_lines(4))
        await site.until(first.id, lambda batch: batch.status == "in_progress")
        second = await site.create(chat_lines(8))
        batch = await site.ended(second.id, "failed")
        assert batch.errors is not None
        assert batch.errors.data is not None
        error = batch.errors.data[0]
        assert error.code == "token_limit_exceeded"
        assert error.message is not None
        assert error.message.startswith("ENQUEUED_TOKENS_EXCEEDED: at most 500 tokens")
        gateway.worker.resume.set()
        await site.ended(first.id, "completed")
        gateway.worker.script.pause_after = None
        third = await site.create(chat_lines(4))
        await site.ended(third.id, "completed")
    finally:
        gateway.worker.resume.set()
        await gateway.reload(gateway.document)


async def test_a_cancelled_batch_keeps_what_was_done(site: BatchSite) -> None:
    gateway = site.gateway
    gateway.worker.script.pause_after = 1
    made = await site.create(chat_lines(200))
    await eventually(lambda: gateway.worker.running >= 8)
    cancelling = await gateway.openai().batches.cancel(made.id)
    assert cancelling.status in ("cancelling", "cancelled")
    assert cancelling.cancelling_at
    gateway.worker.resume.set()
    batch = await site.ended(made.id, "cancelled")
    assert batch.request_counts is not None
    done = await site.lines(batch.output_file_id)
    errors = await site.lines(batch.error_file_id)
    assert len(done) == batch.request_counts.completed
    assert {line["custom_id"] for line in [*done, *errors]} == {f"line-{n}" for n in range(200)}
    assert {line["error"]["code"] for line in errors} == {"batch_cancelled"}
    with pytest.raises(openai.BadRequestError) as refusal:
        await gateway.openai().batches.cancel(made.id)
    assert refusal.value.code == "state_conflict"


async def test_one_that_is_cancelled_while_it_is_checked_ends_without_files(
    site: BatchSite,
) -> None:
    made = await site.create(chat_lines(2_000))
    await site.gateway.openai().batches.cancel(made.id)
    batch = await site.ended(made.id, "cancelled")
    assert batch.cancelled_at
    await site.gateway.openai().files.delete(made.input_file_id)


async def test_the_input_may_go_once_all_its_lines_are_jobs(site: BatchSite) -> None:
    made = await site.create(chat_lines(3))
    batch = await site.ended(made.id, "completed")
    assert (await site.gateway.openai().files.delete(batch.input_file_id)).deleted
    assert len(await site.lines(batch.output_file_id)) == 3


async def test_the_input_of_a_running_check_cannot_be_deleted(site: BatchSite) -> None:
    made = await site.create(chat_lines(2_000))
    with pytest.raises(openai.BadRequestError) as refusal:
        await site.gateway.openai().files.delete(made.input_file_id)
    assert "a batch still reads the file" in str(refusal.value)
    await site.gateway.openai().batches.cancel(made.id)
    await site.ended(made.id, "cancelled")


async def test_another_tenants_batches_and_files_are_not_there(site: BatchSite) -> None:
    made = await site.create(chat_lines(1))
    other = site.gateway.openai(api_key=site.gateway.other_key.secret)
    for call in (other.batches.retrieve, other.batches.cancel):
        with pytest.raises(openai.NotFoundError) as refusal:
            await call(made.id)
        assert refusal.value.code == "batch_not_found"
    assert (await other.batches.list()).data == []
    with pytest.raises(openai.NotFoundError):
        await other.batches.create(
            input_file_id=made.input_file_id,
            endpoint="/v1/chat/completions",
            completion_window="24h",
        )
    await site.ended(made.id, "completed")


async def test_lists_are_paged_newest_first(site: BatchSite) -> None:
    client = site.gateway.openai()
    before = [batch.id async for batch in client.batches.list(limit=100)]
    made = [(await site.create([b"{"])).id for _ in range(3)]
    found = [batch.id async for batch in client.batches.list(limit=2)]
    assert found == [*made[::-1], *before]
