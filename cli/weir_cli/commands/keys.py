"""`weir keys`: API keys of a stack, or made with their entries for a directory file."""

import sys
import time
from typing import Annotated

import typer

from weir.gateway.v1.admin_service_pb2 import CreateKeyRequest
from weir_cli.administration import Address, StateDirOption
from weir_cli.commands.served_keys import create_served, ls, revoke, rotate
from weir_cli.errors import CommandError
from weir_gateway.directory.units import parse_duration_ms
from weir_gateway.keys import generate_key, hash_key, is_well_formed, public_id

app = typer.Typer(
    help="Make, list, rotate and revoke API keys. Servers store a key's SHA-256 and nothing else.",
    no_args_is_help=True,
)
app.command("ls")(ls)
app.command("rotate")(rotate)
app.command("revoke")(revoke)

User = Annotated[str, typer.Option(help="User of the tenant that the key belongs to.")]


@app.command()
def create(
    user: User,
    env: Annotated[str, typer.Option(help="1 to 8 of a-z0-9; part of the key.")] = "live",
    name: Annotated[str, typer.Option(help="What the key is for.")] = "",
    tenant: Annotated[
        str, typer.Option(help="Make it in the stack, for this tenant; without: for a file.")
    ] = "",
    expires: Annotated[
        str, typer.Option(help="With --tenant: how long it is valid, such as 90d; empty: for good.")
    ] = "",
    model: Annotated[
        list[str] | None,
        typer.Option(help="With --tenant: a model that it is for; repeat it. Default: all."),
    ] = None,
    state_dir: StateDirOption = None,
    address: Address = "",
) -> None:
    """Make a key, shown once: in the stack with --tenant, else with its entry for `keys:` of a
    tenant in a directory file."""
    if tenant:
        request = CreateKeyRequest(
            tenant_id=tenant, user_id=user, name=name, allowed_models=model or ()
        )
        if expires:
            request.expire_time.FromMilliseconds(time.time_ns() // 1_000_000 + _life_ms(expires))
        create_served(request, state_dir, address)
        return
    if address or state_dir or expires or model:
        raise CommandError(
            "--address, --state-dir, --expires and --model need --tenant: they make it in a stack"
        )
    try:
        key = generate_key(env)
    except ValueError as error:
        raise CommandError(f"{error}; change --env") from None
    print(f"key (shown once): {key.secret}\n")
    print(_entry(key.id, user, name, key.hash))


@app.command("hash")
def hash_command(user: User = "USER") -> None:
    """Read a key from standard input and print its entry for the directory file."""
    key = sys.stdin.readline().strip()
    if not is_well_formed(key):
        raise CommandError(
            "standard input holds no key of the form wr_<env>_<id>_<secret> with a checksum that "
            "holds; make one with `weir keys create`"
        )
    print(_entry(public_id(key), user, "", hash_key(key)))


def _life_ms(text: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise CommandError(f"--expires: {error}") from None


def _entry(key_id: str, user: str, name: str, digest: bytes) -> str:
    fields = [f"id: {key_id}", f"user: {user}", f"hash: sha256:{digest.hex()}"]
    if name:
        fields.insert(2, f"name: {name!r}")
    return "keys:\n  - " + "\n    ".join(fields)
