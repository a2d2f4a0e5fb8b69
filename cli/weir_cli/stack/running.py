"""How commands reach a service: of a stack that runs on this machine, or by address."""

import os
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import SecretStr

from weir_cli.errors import CommandError
from weir_cli.plain_text import warn_of_plain_text
from weir_cli.stack.services import GATEWAY, RATELIMITER, SCHEDULER
from weir_cli.stack.stack_tls import tls_of, tls_of_environment
from weir_cli.stack.state_dir import running_folders
from weir_core.rpc.channel import ChannelTls

TOKEN_VARIABLE = "WEIR_CLUSTER_TOKEN"


@dataclass(frozen=True, slots=True)
class Door:
    """`host:port` of a service, the secret that it asks for, and TLS if it is reached by it."""

    address: str
    token: SecretStr
    tls: ChannelTls | None = None


def ratelimiter_door(address: str, state_dir: Path | None) -> Door:
    """That of the ratelimiter; see `service_door`."""
    return service_door(RATELIMITER, address, state_dir)


def scheduler_door(address: str, state_dir: Path | None) -> Door:
    """That of the scheduler, or of several; see `service_door`."""
    door = service_door(SCHEDULER, address, state_dir)
    if address:
        return door
    folder = state_dir or running_folder(SCHEDULER)
    gateway = yaml.safe_load((folder / f"{GATEWAY}.yaml").read_text(encoding="utf-8"))
    return Door(str(gateway["scheduler_address"]), door.token, door.tls)


def service_door(service: str, address: str, state_dir: Path | None) -> Door:
    """The door that the user named, or that of the stack that runs here.

    Args:
        service: name of its process.
        address: `host:port`, with the secret in WEIR_CLUSTER_TOKEN; empty: that of a stack.
        state_dir: folder of that stack; None: the one that runs.

    Raises:
        CommandError: there is none or more than one, or its secret is not known.
    """
    secret = os.environ.get(TOKEN_VARIABLE, "")
    if address:
        if not secret:
            raise CommandError(f"--address needs the cluster secret; set {TOKEN_VARIABLE}")
        given = tls_of_environment(services=True)
        warn_of_plain_text(address, "cluster secret", encrypted=given is not None)
        return Door(address, SecretStr(secret), given)
    folder = state_dir or running_folder(service)
    try:
        settings = yaml.safe_load((folder / f"{service}.yaml").read_text(encoding="utf-8"))
        secret = (folder / "cluster_secret").read_text(encoding="utf-8").strip()
        tls = tls_of(settings)
        operator = tls.operator() if tls is not None else None
        return Door(str(settings["address"]), SecretStr(secret), operator)
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        raise CommandError(f"{folder} is not the --state-dir of a `weir up`") from None


def running_folder(service: str = RATELIMITER, variable: str = TOKEN_VARIABLE) -> Path:
    """The folder of the `weir up` that runs on this machine; errors name service and secret.

    Raises:
        CommandError: there is none, or more than one.
    """
    folders = running_folders()
    if len(folders) == 1:
        return folders[0]
    if folders:
        raise CommandError(
            f"{len(folders)} `weir up` run here; say which with --state-dir or "
            f"WEIR_STATE_DIR: "
            f"{', '.join(map(str, folders))}"
        )
    raise CommandError(
        f"no `weir up` runs here; give its --state-dir, or --address HOST:PORT of a {service} "
        f"with its secret in {variable}"
    )
