"""Asks a gateway what happened to a request: as its administrator, or with an API key."""

import os
from pathlib import Path

from weir.gateway.v1.insight_service_pb2 import (
    ExplainRequestRequest,
    ExplainRequestResponse,
    Explanation,
)
from weir.gateway.v1.insight_service_pb2_grpc import InsightServiceStub
from weir_cli.administration import CALL_S, SECRET_VARIABLE, administer
from weir_cli.caller_door import DEFAULT_URL, as_caller
from weir_cli.errors import CommandError
from weir_cli.stack.state_dir import running_folders

_KEY_VARIABLE, _URL_VARIABLE, _CA_VARIABLE = "WEIR_API_KEY", "WEIR_TARGET", "WEIR_TLS_CA"


def explained(request_id: str, address: str, state_dir: Path | None) -> Explanation:
    """The account of a request.

    Asked as the administrator of the stack that runs here, or of `address` if WEIR_ADMIN_SECRET
    is set; else with the key in WEIR_API_KEY, which is told of its own tenant's requests alone.

    Raises:
        CommandError: what it was refused with, that nobody answers, or that there is neither.
    """
    request = ExplainRequestRequest(request_id=request_id)
    if not _as_caller(address, state_dir):
        answer: ExplainRequestResponse = administer(
            address,
            state_dir,
            lambda stub: stub.ExplainRequest(request, timeout=CALL_S),  # type: ignore[attr-defined]
            stub=InsightServiceStub,
        )
        return answer.explanation
    key = os.environ.get(_KEY_VARIABLE, "")
    if not key:
        raise CommandError(
            f"a request is explained to the administrator, with {SECRET_VARIABLE} set, or to a "
            f"caller of its tenant, with {_KEY_VARIABLE} set"
        )
    ca = os.environ.get(_CA_VARIABLE, "")
    told = as_caller(
        address or os.environ.get(_URL_VARIABLE, "") or DEFAULT_URL,
        key,
        Path(ca) if ca else None,
        lambda channel, metadata: InsightServiceStub(channel).ExplainRequest(
            request, timeout=CALL_S, metadata=metadata
        ),
    )
    return told.explanation


def _as_caller(address: str, state_dir: Path | None) -> bool:
    if address:
        return not os.environ.get(SECRET_VARIABLE)
    return state_dir is None and not running_folders() and _KEY_VARIABLE in os.environ
