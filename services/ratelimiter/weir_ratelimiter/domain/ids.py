"""Keys and ids: derived, collision-free, the same in every process."""

import hashlib
from urllib.parse import quote, unquote

import msgspec

from weir_ratelimiter.domain.limit import Layer

_SAFE = ":"


def reservation_id(tenant_id: str, request_id: str) -> str:
    """Id of the reservation of one request of a tenant.

    Derived, so that a retry through another process finds the same reservation. The pair is
    encoded with lengths before hashing: (`a:b`, `c`) and (`a`, `b:c`) differ.
    """
    digest = hashlib.blake2b(msgspec.msgpack.encode((tenant_id, request_id)), digest_size=16)
    return f"rsv_{digest.hexdigest()}"


def fingerprint(*contents: str | int) -> bytes:
    """16 bytes that tell one request from another under the same id."""
    return hashlib.blake2b(msgspec.msgpack.encode(contents), digest_size=16).digest()


def limit_key(layer: Layer, owner: tuple[str, ...], limit_id: str) -> str:
    """Key of a limit, such as `user:acme/bob/rpm`.

    `/` inside ids is percent-encoded, so that no two owners share a key.
    """
    parts = "/".join(quote(part, safe=_SAFE) for part in (*owner, limit_id))
    return f"{layer.label}:{parts}" if owner else f"{layer.label}/{parts}"


def parse_limit_key(key: str) -> tuple[str, tuple[str, ...], str]:
    """Label of the layer, owner and id of the limit of a `limit_key`."""
    layer, separator, rest = key.partition(":")
    if not separator:
        layer, _, limit_id = key.partition("/")
        return layer, (), unquote(limit_id)
    *owner, limit_id = map(unquote, rest.split("/"))
    return layer, tuple(owner), limit_id
