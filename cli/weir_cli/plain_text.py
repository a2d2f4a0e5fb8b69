"""Secrets that would cross a network as they are."""

import typer

from weir_core.host_port import is_loopback


def warn_of_plain_text(address: str, secret: str, *, encrypted: bool) -> None:
    """Says on stderr that a secret can be read on its way.

    Args:
        address: `host:port` that it goes to.
        secret: which one, for people.
        encrypted: whether it goes by TLS.
    """
    if not encrypted and not is_loopback(address):
        typer.echo(
            f"warning: the {secret} goes to {address} in plain text; use TLS (docs/security.md)",
            err=True,
        )
