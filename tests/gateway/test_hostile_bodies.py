"""Bodies that are small or allowed, and were dear: each is refused fast and as JSON."""

import json

import pytest

from weir_core.errors import InvalidField, WeirError
from weir_core.errors.openai import to_body
from weir_gateway.intake.checks import MAX_MESSAGES
from weir_gateway.openai.fields import Fields
from weir_gateway.openai.json_body import parse_object
from weir_gateway.openai.messages import to_chat


def test_a_repeated_key_among_many_is_found_in_linear_time() -> None:
    """Quadratic, this would take hours."""
    keys = ",".join(f'"k{at}":1' for at in range(300_000))
    with pytest.raises(WeirError, match="'k299999' is there twice"):
        parse_object(f'{{{keys},"k299999":1}}'.encode())


def test_too_many_messages_are_refused_by_their_number() -> None:
    fields = Fields({"messages": [object()] * (MAX_MESSAGES + 1)})
    with pytest.raises(InvalidField, match=f"an array of {MAX_MESSAGES + 1}"):
        to_chat(fields)


def test_an_error_that_quotes_a_lone_surrogate_can_be_sent() -> None:
    body = to_body(InvalidField("\ud800", "\ud800", "text"))
    assert json.dumps(body, ensure_ascii=False).encode()
