"""Who may call what of the console: a row for each of its routes."""

from dataclasses import dataclass
from enum import Enum


class Who(Enum):
    """What a caller must have."""

    ANYBODY = "nothing"
    SIGNED_IN = "a session"
    ADMIN = "a session of an administrator"


@dataclass(frozen=True)
class Row:
    """What a route asks for.

    `object` is the type of the object in its path, or in its query by the name `query`.
    """

    who: Who
    object: str = ""
    query: str = ""


_OPEN, _OWN, _ADMIN = Row(Who.ANYBODY), Row(Who.SIGNED_IN), Row(Who.ADMIN)
_TENANT = Row(Who.SIGNED_IN, "tenant")
_BY_TENANT = Row(Who.SIGNED_IN, "tenant", "tenant")

CONSOLE: dict[str, Row] = {
    "GET /console": _OPEN,
    "GET /console/{page:path}": _OPEN,
    "GET /console/static/{name:path}": _OPEN,
    "GET /console/api/login": _OPEN,
    "POST /console/api/login": _OPEN,
    # With `console.oidc_issuer` alone.
    "GET /console/api/oidc/start": _OPEN,
    "GET /console/api/oidc/callback": _OPEN,
    "GET /console/api/session": _OWN,
    "POST /console/api/logout": _OWN,
    "GET /console/api/overview": _OWN,
    "GET /console/api/history": _OWN,
    "GET /console/api/live": _OWN,
    "GET /console/api/tenants": _OWN,
    "GET /console/api/tenants/{tenant:path}": _TENANT,
    "GET /console/api/tenants/{tenant:path}/limits": _TENANT,
    "GET /console/api/tenants/{tenant:path}/usage": _TENANT,
    "GET /console/api/tenants/{tenant:path}/keys": _TENANT,
    "GET /console/api/tenants/{tenant:path}/users": _TENANT,
    "GET /console/api/queue": _BY_TENANT,
    "GET /console/api/slo": _BY_TENANT,
    "GET /console/api/requests": _BY_TENANT,
    "GET /console/api/requests/{request:path}": Row(Who.SIGNED_IN, "request"),
    "GET /console/api/playground/models": _OWN,
    "POST /console/api/playground/chat": _OWN,
    "GET /console/api/workers": _ADMIN,
    "POST /console/api/workers/{worker:path}/drain": _ADMIN,
    "POST /console/api/workers/{worker:path}/undrain": _ADMIN,
    "GET /console/api/workers/{worker:path}/kv": _ADMIN,
    "GET /console/api/fairness": _ADMIN,
    "GET /console/api/directory": _ADMIN,
    "GET /console/api/configuration": _ADMIN,
    "GET /console/api/audit": _ADMIN,
}
