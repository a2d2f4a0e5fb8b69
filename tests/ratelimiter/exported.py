"""The ledger as its export shows it."""

from collections.abc import Mapping
from typing import Any

import grpc
import orjson

from weir.ratelimiter.v1.ledger_service_pb2 import EXPORT_FORMAT_JSONL, ExportRequest
from weir.ratelimiter.v1.ledger_service_pb2_grpc import LedgerServiceStub


async def exported(channel: grpc.aio.Channel) -> list[Mapping[str, Any]]:
    """Every row, by column; whatever happened before this call is in it."""
    call = LedgerServiceStub(channel).Export(ExportRequest(format=EXPORT_FORMAT_JSONL), timeout=30)
    content = b"".join([piece.content async for piece in call])
    return [orjson.loads(line) for line in content.splitlines()]
