"""The one place that decides what a log line or a span may hold: no secret and no tenant's text."""

import re
from collections.abc import Mapping
from functools import lru_cache

MASK = "[redacted]"
_MAX_TEXT = 2_000
_MAX_DEPTH = 6
_PLAIN = frozenset({type(None), bool, int, float})
_NUMBERS = (int, float)

_SECRET_KEYS = frozenset(
    {
        "authorization", "proxy_authorization", "api_key", "apikey", "x_api_key", "key", "token",
        "secret", "password", "passwd", "cookie", "set_cookie", "credentials", "signature",
        "cluster_token", "private_key", "access_token", "refresh_token", "client_secret",
    }
)  # fmt: skip
_TEXT_KEYS = frozenset(
    {
        "prompt", "messages", "message_content", "text", "content", "input", "inputs", "output",
        "outputs", "completion", "completions", "delta", "deltas", "body", "system",
        "system_prompt", "tools", "arguments", "stop", "rendered", "token_ids", "prompt_token_ids",
        "schema", "json_schema", "regex", "grammar", "lark_grammar", "metadata", "instructions",
        "stop_sequences", "query", "query_string", "statement", "parameters", "stacktrace",
    }
)  # fmt: skip
_HIDDEN_KEYS = _SECRET_KEYS | _TEXT_KEYS
_SECRET_SUFFIXES = ("_secret", "_password", "_api_key", "_authorization", "_credentials")
_TEXT_SUFFIXES = ("_prompt", "_text", "_content", "_messages", "_schema", "_arguments")
# Of libraries' instrumentation: `url.full` and `exception.message` end in a harmless word.
_TEXT_NAMES = frozenset({"url.full", "http.url", "http.target", "exception.message"})
_HIDDEN_SUFFIXES = _SECRET_SUFFIXES + _TEXT_SUFFIXES

_KEY_LIKE = re.compile(
    r"(?i)\bbearer\s+[A-Za-z0-9._~+/=-]{6,}"
    r"|\b(?:sk|pk|wr|tw|weir|whsec|whsk)[-_](?:[A-Za-z0-9]+[-_])*[A-Za-z0-9+/=]{16,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"
    r"|\bbasic\s+(?=[A-Za-z0-9+/]*[0-9=])[A-Za-z0-9+/]{8,}={0,2}"
    r"|\b(?:gh[oprsu]|hf|gsk|xox[abprs])[-_][A-Za-z0-9-]{16,}|\bAKIA[0-9A-Z]{16}\b"
    r"|\bAIza[0-9A-Za-z_-]{30,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*"
    r"|://[^/\s:@]*:[^/\s@]+@"
)
_PARAMETER = re.compile(
    r"(?i)([?&](?:key|code|sig|api[-_]?key|x-api-key|access[-_]token|token|secret|signature"
    r"|password|auth)=)"
    r"[^&\s\"']+"
)
# What most values are, and what no key is: hexadecimal ids, dates and versions, and words that
# are shorter than the shortest key without a space, dot or colon.
_NO_KEY = re.compile(r"(?:req_)?[0-9a-f]*|[0-9TZ:.+-]*|[\w-]{0,15}", re.ASCII)
# What a library may say of its own: a word, an address, a name. No sentence of a tenant is one.
_WORD = re.compile(r"[\w.:/@+=,\[\]<>()#*-]{0,120}", re.ASCII)
# Reasons and names of types.
_CODE = re.compile(r"[A-Za-z_][\w.]{0,99}", re.ASCII)
# Names of tenants, models and workers come again with every line; only what holds no key is kept.
_KNOWN_CLEAN: set[str] = set()
_MOST_KNOWN = 4_096
_LONGEST_KNOWN = 64


def redact(fields: Mapping[str, object]) -> dict[str, object]:
    """A copy of log fields in which hidden keys and key-like values are masked, at any depth."""
    return {name: _value(name, value, 0) for name, value in fields.items()}


def mask_keys(text: str) -> str:
    """`text` with everything that looks like a credential masked, cut at 2,000 characters."""
    if text in _KNOWN_CLEAN or (len(text) <= _MAX_TEXT and _NO_KEY.fullmatch(text)):
        return text
    masked = _KEY_LIKE.sub(MASK, text)
    if "=" in masked:
        masked = _PARAMETER.sub(rf"\1{MASK}", masked)
    if len(text) <= _LONGEST_KNOWN and masked == text:
        _keep_clean(text)
    return masked if len(masked) <= _MAX_TEXT else f"{masked[:_MAX_TEXT]}..."


def foreign_word(value: object) -> object:
    """What a library put into a line of its own: numbers and single words alone are kept."""
    if type(value) in _PLAIN or isinstance(value, _NUMBERS):
        return value
    text = value if isinstance(value, str) else f"<{type(value).__name__}>"
    return mask_keys(text) if _WORD.fullmatch(text) else MASK


def code_word(text: str) -> str:
    """`text` where it is a reason or the name of a type, as the description of a status is."""
    return text if _CODE.fullmatch(text) else MASK


def _keep_clean(text: str) -> None:
    if len(_KNOWN_CLEAN) >= _MOST_KNOWN:
        _KNOWN_CLEAN.clear()
    _KNOWN_CLEAN.add(text)


@lru_cache(maxsize=4_096)
def is_hidden(name: str) -> bool:
    """Whether a field of this name may hold a secret or a tenant's text."""
    if name in _TEXT_NAMES:
        return True
    plain = name.lower().replace("-", "_").rpartition(".")[2]
    return plain in _HIDDEN_KEYS or plain.endswith(_HIDDEN_SUFFIXES)


def _value(name: str, value: object, depth: int) -> object:
    if type(value) in _PLAIN or isinstance(value, _NUMBERS):
        return value
    if is_hidden(name):
        return MASK
    if isinstance(value, str):
        return mask_keys(value)
    if depth >= _MAX_DEPTH or isinstance(value, bytes | bytearray | memoryview):
        return MASK
    if isinstance(value, Mapping):
        return {str(key): _value(str(key), inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_value("", inner, depth + 1) for inner in value]
    # A message or record prints its fields, and one of them may be a prompt.
    return f"<{type(value).__name__}>"
