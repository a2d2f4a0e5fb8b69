"""A batch that every client sends, and what must come back."""

import json
from typing import Any, Final

from tests.gateway.harness import MODEL

ENDPOINT: Final = "/v1/chat/completions"
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
EXPECTED = {"line-0": "Mild", "line-1": "Mild"}
_COUNT = 3


def batch_input() -> bytes:
    """Three lines of which the last is refused."""
    return b"\n".join(json.dumps(_line(number)).encode() for number in range(_COUNT))


def _line(number: int) -> dict[str, Any]:
    body: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
    body |= {"max_tokens": 4}
    if number == _COUNT - 1:
        body |= {"temperature": 9}
    return {"custom_id": f"line-{number}", "method": "POST", "url": ENDPOINT, "body": body}


def answers(output: bytes | str) -> dict[str, str]:
    """The text of each line of an output file, by its custom id."""
    lines = [json.loads(line) for line in output.splitlines()]
    assert [line["response"]["status_code"] for line in lines] == [200] * len(lines)
    return {
        line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"]
        for line in lines
    }
