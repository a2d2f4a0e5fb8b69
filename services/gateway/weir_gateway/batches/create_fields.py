"""The body of `POST /v1/batches`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weir_core.errors import InvalidField
from weir_gateway.batches.endpoints import check_endpoint
from weir_gateway.files.file import Purpose
from weir_gateway.files.upload_fields import default_ttl_ms, ttl_ms_of
from weir_gateway.jobs.kind import JobKinds
from weir_gateway.openai.fields import Fields
from weir_gateway.openai.pairs import metadata_of
from weir_gateway.webhooks.url import check_webhook_url

_WINDOW = "24h"
WINDOW_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class CreateFields:
    """What is asked for.

    Attributes:
        output_ttl_ms: how long the output is kept.
        webhook_url: called at the end; empty for none.
    """

    input_file_id: str
    endpoint: str
    metadata: Mapping[str, str]
    output_ttl_ms: int
    webhook_url: str


def read_create(body: dict[str, Any], kinds: JobKinds, *, http_webhooks: bool) -> CreateFields:
    """Reads a body. Raises WeirError: it names the field, the value and the bound."""
    fields = Fields(body)
    file_id = fields.text("input_file_id")
    if not file_id:
        raise InvalidField("input_file_id", file_id, "the id of a file of the purpose `batch`")
    endpoint = check_endpoint(fields.raw("endpoint"), kinds)
    window = fields.raw("completion_window")
    if window != _WINDOW:
        raise InvalidField("completion_window", window, f"`{_WINDOW}`")
    metadata = metadata_of(fields)
    output_ttl_ms = _output_ttl_ms(fields)
    webhook_url = fields.text("webhook_url")
    if webhook_url:
        check_webhook_url(webhook_url, allow_http=http_webhooks)
    fields.refuse_unknown()
    return CreateFields(file_id, endpoint, metadata, output_ttl_ms, webhook_url)


def _output_ttl_ms(fields: Fields) -> int:
    after = fields.nested("output_expires_after")
    if after is None:
        return default_ttl_ms(Purpose.BATCH_OUTPUT)
    anchor = after.raw("anchor")
    if anchor != "created_at":
        raise InvalidField("output_expires_after.anchor", anchor, "created_at")
    ttl_ms = ttl_ms_of("output_expires_after.seconds", after.raw("seconds"))
    after.refuse_unknown()
    return ttl_ms
