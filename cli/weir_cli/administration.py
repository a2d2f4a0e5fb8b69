"""How commands reach a gateway's AdminService: of a stack that runs here, or by address."""

import asyncio
import getpass
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import grpc
import typer
import yaml
from pydantic import SecretStr

from weir.gateway.v1.admin_service_pb2_grpc import AdminServiceStub
from weir_cli.errors import CommandError
from weir_cli.plain_text import warn_of_plain_text
from weir_cli.stack.running import Door, running_folder
from weir_cli.stack.services import GATEWAY
from weir_cli.stack.stack_tls import tls_of, tls_of_environment
from weir_cli.stack.state_dir import ADMIN_SECRET_FILE
from weir_core.errors import Reason
from weir_core.errors.status import from_rpc_error
from weir_core.rpc.channel import open_channel

if TYPE_CHECKING:
    from weir.gateway.v1.admin_service_pb2_grpc import AdminServiceAsyncStub

T = TypeVar("T")

CALL_S = 10.0
SECRET_VARIABLE = "WEIR_ADMIN_SECRET"

StateDirOption = Annotated[
    Path | None,
    typer.Option(
        envvar="WEIR_STATE_DIR", help="--state-dir of a `weir up`; default: the one that runs."
    ),
]
Address = Annotated[
    str, typer.Option(help="host:port of a gateway's gRPC; its secret in WEIR_ADMIN_SECRET.")
]


def administer(
    address: str,
    state_dir: Path | None,
    call: "Callable[[AdminServiceAsyncStub], Awaitable[T]]",
    stub: Callable[[Any], Any] = AdminServiceStub,
) -> T:
    """Makes one call, or several in one go, as the administrator.

    Args:
        address, state_dir: as the options.
        call: makes them.
        stub: of the service that is asked.

    Raises:
        CommandError: what it was refused with, or that nobody answers.
    """
    return asyncio.run(_call(admin_door(address, state_dir), call, stub))


def who() -> tuple[tuple[str, str], ...]:
    """Metadata that says who asks, for the audit trail."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        name = str(os.getuid())
    return (("weir-actor", f"weir:{name}"[:128]),)


async def _call(
    door: Door,
    call: "Callable[[AdminServiceAsyncStub], Awaitable[T]]",
    stub: Callable[[Any], Any],
) -> T:
    async with open_channel(
        door.address, name="gateway", token=door.token, tls=door.tls
    ) as channel:
        try:
            return await call(stub(channel))
        except grpc.aio.AioRpcError as error:
            told = from_rpc_error(
                error, unavailable_as=Reason.DIRECTORY_UNAVAILABLE, peer="the gateway"
            )
            raise CommandError(f"{door.address}: {told.message}") from None


def admin_door(address: str, state_dir: Path | None) -> Door:
    """The gateway that the user named, or that of the stack that runs here. Raises CommandError."""
    if address:
        secret = os.environ.get(SECRET_VARIABLE, "")
        if not secret:
            raise CommandError(f"--address needs the admin secret; set {SECRET_VARIABLE}")
        edge_tls = tls_of_environment(services=False)
        warn_of_plain_text(address, "admin secret", encrypted=edge_tls is not None)
        return Door(address, SecretStr(secret), edge_tls)
    folder = state_dir or running_folder(GATEWAY, SECRET_VARIABLE)
    try:
        settings = yaml.safe_load((folder / f"{GATEWAY}.yaml").read_text(encoding="utf-8"))
        address, tls = str(settings["grpc_address"]), tls_of(settings)
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        raise CommandError(f"{folder} is not the --state-dir of a `weir up`") from None
    return Door(address, _secret_of(folder), tls.client() if tls is not None else None)


def _secret_of(folder: Path) -> SecretStr:
    """With a directory file a stack has the one of the environment, or none."""
    try:
        return SecretStr((folder / ADMIN_SECRET_FILE).read_text(encoding="utf-8").strip())
    except OSError:
        secret = os.environ.get(SECRET_VARIABLE, "")
    if not secret:
        raise CommandError(
            f"the `weir up` of {folder} serves a directory file; change the file, or start it "
            f"with --database; for webhooks start it with {SECRET_VARIABLE} set, and set it here"
        )
    return SecretStr(secret)
