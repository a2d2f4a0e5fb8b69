"""API keys: `wr_<env>_<public id>_<secret><checksum>`.

The prefix is for secret scanners, the underscores let a double click select all of it, the
public id is what logs show, and the checksum (CRC-32 in base62) tells a typo from an unknown
key without a look-up. Servers store the SHA-256 of the whole key and nothing else.
"""

import hashlib
import re
import secrets
import zlib
from dataclasses import dataclass, field

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PUBLIC_ID_LENGTH = 12
_SECRET_LENGTH = 28  # 166 bits
_CHECKSUM_LENGTH = 6

_FORMAT = re.compile(
    rf"wr_(?P<env>[a-z0-9]{{1,8}})_(?P<id>[0-9A-Za-z]{{{_PUBLIC_ID_LENGTH}}})"
    rf"_[0-9A-Za-z]{{{_SECRET_LENGTH}}}(?P<checksum>[0-9A-Za-z]{{{_CHECKSUM_LENGTH}}})",
    re.ASCII,
)

_PUBLIC_ID = re.compile(rf"[0-9A-Za-z]{{{_PUBLIC_ID_LENGTH}}}", re.ASCII)


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key just made; `secret` is shown once and stored nowhere.

    Attributes:
        id: public id, 12 characters.
        secret: the whole key, as clients send it.
        hash: SHA-256 of the whole key, 32 bytes.
    """

    id: str
    secret: str = field(repr=False)
    hash: bytes


def generate_key(env: str = "live", key_id: str = "") -> NewKey:
    """Makes a key of 166 random bits.

    Args:
        env: 1 to 8 of `a-z0-9`, such as `live` or `dev`; part of the key.
        key_id: public id of the key that gets a new secret; empty, or in a form of the
            operator's own: a new one.

    Raises:
        ValueError: `env` is anything else.
    """
    if not re.fullmatch(r"[a-z0-9]{1,8}", env, re.ASCII):
        raise ValueError(f"the environment of a key is {env!r}; it must be 1 to 8 of a-z0-9")
    public_id = key_id if _PUBLIC_ID.fullmatch(key_id) else _random_text(_PUBLIC_ID_LENGTH)
    body = f"wr_{env}_{public_id}_{_random_text(_SECRET_LENGTH)}"
    secret = body + _checksum(body)
    return NewKey(public_id, secret, hash_key(secret))


def hash_key(key: str) -> bytes:
    """SHA-256 of a whole key: what the directory stores."""
    return hashlib.sha256(key.encode("utf-8", errors="surrogatepass")).digest()


def is_well_formed(key: str) -> bool:
    """Whether a text has the form of a key and a checksum that holds."""
    match = _FORMAT.fullmatch(key)
    return match is not None and match["checksum"] == _checksum(key[:-_CHECKSUM_LENGTH])


def public_id(key: str) -> str:
    """The public id of a well-formed key.

    Raises:
        ValueError: the text is not a key; it is not quoted.
    """
    match = _FORMAT.fullmatch(key)
    if match is None:
        raise ValueError("not an API key of the form wr_<env>_<id>_<secret>")
    return match["id"]


def _random_text(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _checksum(body: str) -> str:
    value = zlib.crc32(body.encode())
    digits = []
    for _ in range(_CHECKSUM_LENGTH):
        value, digit = divmod(value, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
