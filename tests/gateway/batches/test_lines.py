"""Lines of input and output files."""

import itertools
import json
import sys
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_gateway.batches.input_lines import InputLine, input_lines
from weir_gateway.batches.line import BadLine, read_line
from weir_gateway.batches.output_line import output_line
from weir_gateway.jobs.job import Job, JobState

ENDPOINT = "/v1/chat/completions"


def line_of(**changes: object) -> dict[str, object]:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
    line: dict[str, object] = {"custom_id": "a", "method": "POST", "url": ENDPOINT, "body": body}
    return {name: value for name, value in (line | changes).items() if value is not ...}


def as_input(content: bytes | None, number: int = 1) -> InputLine:
    return InputLine(number, content, len(content or b""), len(content or b""))


async def read_all(
    content: bytes, cuts: list[int], longest: int = 1_000, start: int = 0
) -> list[InputLine]:
    edges = [start, *sorted(cut for cut in cuts if start < cut < len(content)), len(content)]

    async def chunks() -> AsyncIterator[bytes]:
        for begin, end in itertools.pairwise(edges):
            yield content[begin:end]

    return [line async for line in input_lines(chunks(), longest, start=start)]


@given(
    content=st.lists(st.sampled_from([b"a", b"bcd", b"\n", b"\n", b" ", b"\r\n"])).map(b"".join),
    cuts=st.lists(st.integers(0, 60)),
)
async def test_lines_are_the_same_however_the_file_is_cut(content: bytes, cuts: list[int]) -> None:
    found = await read_all(content, cuts)
    expected = [
        (number, text) for number, text in enumerate(content.split(b"\n"), 1) if text.strip()
    ]
    assert [(line.number, line.content) for line in found] == expected
    for line in found:
        rest = await read_all(content, cuts, start=min(line.end, len(content)))
        assert [one.content for one in rest] == [one.content for one in found if one.end > line.end]


async def test_blank_lines_beyond_number_take_no_time_of_others() -> None:
    content = b"\n" * 8_000_000 + b'  {"a": 1}\r\n' + b" \r\n" * 2_000_000 + b"last"
    steps = 0

    def count(*_: object) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(count)
    try:
        found = await read_all(content, [1 << 20, 1 << 21, 9_000_001])
    finally:
        sys.setprofile(None)
    assert [(line.number, line.content) for line in found] == [
        (8_000_001, b'  {"a": 1}\r'),
        (10_000_002, b"last"),
    ]
    assert [line.end for line in found] == [8_000_012, len(content)]
    assert steps < 1_000


@pytest.mark.parametrize("cut", range(6))
async def test_a_byte_order_mark_is_left_out_at_the_start_alone(cut: int) -> None:
    mark = b"\xef\xbb\xbf"
    content = mark + b"{}\n" + mark + b"{}\n"
    found = await read_all(content, [cut])
    assert [line.content for line in found] == [b"{}", mark + b"{}"]
    assert [line.end for line in found] == [6, 12]
    assert [line.content for line in await read_all(content, [], start=6)] == [mark + b"{}"]
    assert await read_all(mark + b"\n", [cut]) == []


async def test_of_a_line_that_is_too_long_its_length_alone_is_known() -> None:
    content = b"x" * 50 + b"\n" + b"y" * 5 + b"\n" + b"z" * 60
    found = await read_all(content, list(range(0, 200, 7)), longest=20)
    assert [(line.number, line.content, line.size) for line in found] == [
        (1, None, 50),
        (2, b"yyyyy", 5),
        (3, None, 60),
    ]


def test_a_line_in_order() -> None:
    found = read_line(as_input(json.dumps(line_of()).encode()), ENDPOINT, 1_000)
    assert (found.custom_id, found.model) == ("a", "tiny")
    assert json.loads(found.body) == line_of()["body"]


@pytest.mark.parametrize(
    ("content", "code", "told"),
    [
        (b"{", "invalid_json_line", "the line cannot be read: it is not JSON"),
        (b"[]", "invalid_json_line", "not a JSON object"),
        (b'{"custom_id": "a", "custom_id": "b"}', "invalid_json_line", "twice"),
        (b'{"custom_id": NaN}', "invalid_json_line", "NaN is not JSON"),
        (b"\xff", "invalid_json_line", "not UTF-8"),
        (line_of(custom_id=...), "missing_required_parameter", "no custom_id"),
        (line_of(custom_id=""), "invalid_custom_id", "1 to 512"),
        (line_of(custom_id=7), "invalid_custom_id", "1 to 512"),
        (line_of(custom_id="a\nb"), "invalid_custom_id", "printable"),
        (line_of(method="GET"), "invalid_method", "it must be POST"),
        (line_of(url="/v1/completions"), "invalid_url", ENDPOINT),
        (line_of(body=[]), "invalid_request", "body is no object"),
        (line_of(body={}), "missing_required_parameter", "body.model"),
        (line_of(body={"model": "m", "stream": True}), "invalid_request", "body.stream"),
        (line_of(priority=1), "unknown_field", "'priority'"),
    ],
)
def test_a_line_that_is_not(content: object, code: str, told: str) -> None:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    with pytest.raises(BadLine) as bad:
        read_line(as_input(raw, 7), ENDPOINT, 1_000)
    error = bad.value.at(7)
    assert (error.code, error.line) == (code, 7)
    assert told in error.message


def test_a_line_that_is_too_long() -> None:
    with pytest.raises(BadLine, match="at most 1000 are taken"):
        read_line(InputLine(3, None, 5_000, 5_000), ENDPOINT, 1_000)


def job_of(**changes: object) -> Job:
    values: dict[str, object] = {
        "id": "job_01",
        "tenant_id": "acme",
        "user_id": "alice",
        "api_key_id": "k",
        "kind": "chat",
        "model": "tiny",
        "body": b"{}",
        "created_ms": 1,
        "deadline_ms": 2,
        "custom_id": 'q"1',
        "request_id": "req_1",
    }
    return Job(**(values | changes))  # type: ignore[arg-type]


def test_output_lines_are_in_openais_form() -> None:
    done = json.loads(output_line(job_of(state=JobState.SUCCEEDED, result=b'{"choices":[]}')))
    assert done == {
        "id": "batch_req_01",
        "custom_id": 'q"1',
        "response": {"status_code": 200, "request_id": "req_1", "body": {"choices": []}},
        "error": None,
    }
    failed = json.loads(
        output_line(
            job_of(
                state=JobState.FAILED,
                error_reason="CONTEXT_LENGTH_EXCEEDED",
                error_message="too long",
            )
        )
    )
    assert failed["response"]["status_code"] == 400
    assert failed["response"]["body"]["error"]["code"] == "context_length_exceeded"
    assert failed["error"] is None
    for state, code in (
        (JobState.EXPIRED, "batch_expired"),
        (JobState.CANCELLED, "batch_cancelled"),
    ):
        line = json.loads(output_line(job_of(state=state)))
        assert line["response"] is None
        assert line["error"]["code"] == code
