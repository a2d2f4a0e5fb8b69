"""`weir keys` of a stack whose directory is a database: list, make, rotate, revoke."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

import typer
from google.protobuf.timestamp_pb2 import Timestamp

from weir.directory.v1.directory_pb2 import ApiKey
from weir.gateway.v1.admin_service_pb2 import (
    CreateKeyRequest,
    ListKeysRequest,
    RevokeKeyRequest,
    RotateKeyRequest,
)
from weir_cli.administration import CALL_S, Address, StateDirOption, administer, who
from weir_cli.directory_text import Form, Format, Printed, print_forms
from weir_cli.errors import CommandError
from weir_gateway.directory.sql.entry_form import key_form
from weir_gateway.directory.units import parse_duration_ms

_COLUMNS = ("id", "tenant", "user", "name", "revoked", "expires", "last_used", "allowed_models")
_PAGE = 1_000

KeyId = Annotated[str, typer.Argument(metavar="ID", help="Public id of the key.")]


def ls(
    tenant: Annotated[str, typer.Option(help="Only keys of this tenant.")] = "",
    output: Printed = Format.TABLE,
    state_dir: StateDirOption = None,
    address: Address = "",
) -> None:
    """List keys by public id, without secrets."""
    keys = administer(address, state_dir, lambda stub: _list(stub, tenant))
    print_forms(keys, output, _COLUMNS)


def rotate(
    key_id: KeyId,
    overlap: Annotated[
        str, typer.Option(help="How long the secret before still works, such as 1h; 0s: not.")
    ] = "1h",
    state_dir: StateDirOption = None,
    address: Address = "",
) -> None:
    """Give a key a new secret, shown once."""
    request = RotateKeyRequest(api_key_id=key_id)
    try:
        request.overlap.FromTimedelta(timedelta(milliseconds=parse_duration_ms(overlap)))
    except (ValueError, OverflowError) as error:
        raise CommandError(f"--overlap: {error}") from None

    async def ask(stub: Any) -> Any:
        return await stub.RotateKey(request, timeout=CALL_S, metadata=who())

    print(f"key (shown once): {administer(address, state_dir, ask).secret}")


def revoke(key_id: KeyId, state_dir: StateDirOption = None, address: Address = "") -> None:
    """End a key for good, and its open streams, on every gateway."""

    async def ask(stub: Any) -> Any:
        request = RevokeKeyRequest(api_key_id=key_id)
        return await stub.RevokeKey(request, timeout=CALL_S, metadata=who())

    answer = administer(address, state_dir, ask)
    print(f"key {key_id} is revoked, version {answer.directory_version}")


def create_served(request: CreateKeyRequest, state_dir: Any, address: str) -> None:
    """Makes a key of a user of a running stack; prints it, once."""

    async def ask(stub: Any) -> Any:
        return await stub.CreateKey(request, timeout=CALL_S, metadata=who())

    print(f"key (shown once): {administer(address, state_dir, ask).secret}")


async def _list(stub: Any, tenant: str) -> list[Form]:
    found: list[Form] = []
    token = ""
    while True:
        request = ListKeysRequest(tenant_id=tenant, page_size=_PAGE, page_token=token)
        answer = await stub.ListKeys(request, timeout=CALL_S, metadata=who())
        found.extend(_form(key, answer.last_use_times) for key in answer.api_keys)
        token = answer.next_page_token
        if not token:
            return found


def _form(key: ApiKey, uses: Mapping[str, Timestamp]) -> Form:
    form = {"tenant": key.tenant_id, **key_form(key)}
    if key.id in uses:
        form["last_used"] = uses[key.id].ToJsonString()
    return form
