"""`weir limits show`: the limits of a caller, and where each stands."""

import asyncio
import time

from google.protobuf.json_format import MessageToJson

from weir.common.v1.subject_pb2 import Subject
from weir.ratelimiter.v1.ratelimiter_service_pb2 import ExplainRequest
from weir_cli.account_options import Address, Key, Model, OfStateDir, Printed, Tenant, User
from weir_cli.account_text import limits_text
from weir_cli.output import Output
from weir_cli.ratelimiter import CALL_S, ask
from weir_cli.stack.running import ratelimiter_door


def show(
    tenant: Tenant,
    user: User = "",
    key: Key = "",
    model: Model = "",
    output: Printed = Output.TEXT,
    state_dir: OfStateDir = None,
    address: Address = "",
) -> None:
    """Show every limit of a tenant with what is used of it, those of its plan included.

    `weir explain` says what follows from it.
    """
    subject = Subject(tenant_id=tenant, user_id=user, api_key_id=key, model=model)
    request = ExplainRequest(subject=subject)
    door = ratelimiter_door(address, state_dir)
    response = asyncio.run(ask(door, lambda stub: stub.Explain(request, timeout=CALL_S)))
    if output is Output.JSON:
        print(MessageToJson(response, preserving_proto_field_name=True))
    else:
        print(limits_text(response.limits, time.time_ns() // 1_000_000))
