"""`weir tls`: certificates for a deployment of one's own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from weir_cli.certificate_authority import CertificateAuthority
from weir_cli.errors import CommandError

app = typer.Typer(no_args_is_help=True, help="Make certificates (docs/security.md).")

DOMAIN = "weir.internal"
EDGE, OPERATOR = "edge", "operator"
SERVICES = ("gateway", "ratelimiter", "scheduler", "worker")
_LOCAL = ("localhost", "127.0.0.1", "::1")


@app.callback()
def _group() -> None:
    return


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Where they go; made if it is not there.")],
    host: Annotated[
        list[str] | None,
        typer.Option(help="Name or IP address of the machines, beside localhost. Repeat it."),
    ] = None,
    domain: Annotated[
        str, typer.Option(help="Services are called SERVICE.DOMAIN: `tls.peer_domain`.")
    ] = DOMAIN,
    days: Annotated[int, typer.Option(min=1, max=825, help="How long they are valid.")] = 90,
) -> None:
    """Make a CA and certificates of all services; with a CA that is there, renew them.

    One certificate for each service, `edge` for clients of the gateway and `operator` for the
    `weir` commands. Running services take renewed files by themselves.
    """
    authority = make_certificates(folder, hosts=host or (), domain=domain, days=days)
    print(f"CA            {authority.certificate}")
    for name in (*SERVICES, EDGE, OPERATOR):
        print(f"{name:<12}  {folder / name}.pem, .key")
    print(f"valid for {days} days; keep ca.key away from the machines that serve")


def make_certificates(
    folder: Path, *, hosts: Sequence[str] = (), domain: str = DOMAIN, days: int = 90
) -> CertificateAuthority:
    """What `weir tls init` makes. Raises CommandError."""
    if not domain:
        raise CommandError("--domain is empty; give one such as weir.internal")
    authority = CertificateAuthority(folder)
    reached = [*_LOCAL, *hosts]
    for name in (*SERVICES, OPERATOR):
        authority.issue(name, [f"{name}.{domain}", *reached], days=days)
    authority.issue(EDGE, reached, days=days)
    return authority
