"""The administrator's secret: only a strong one, compared in constant time."""

import hmac

from pydantic import SecretStr

from weir_core.errors import Reason, WeirError
from weir_core.errors.startup import StartupError

VARIABLE = "WEIR_ADMIN_SECRET"
_SHORTEST, _LEAST_DIFFERENT = 32, 12
_SCHEME = "bearer "


def check_secret(secret: SecretStr, cluster: SecretStr) -> None:
    """Refuses a weak secret.

    Raises:
        StartupError: it is short, repeats itself, or is the cluster secret. It is not quoted.
    """
    value = secret.get_secret_value()
    how = f"make one with `openssl rand -base64 32` and set {VARIABLE}"
    if len(value) < _SHORTEST:
        raise StartupError(
            f"admin_secret has {len(value)} characters; it must have {_SHORTEST} or more; {how}"
        )
    different = len(set(value))
    if different < _LEAST_DIFFERENT:
        raise StartupError(
            f"admin_secret has {different} different characters; it must have {_LEAST_DIFFERENT} "
            f"or more; {how}"
        )
    if hmac.compare_digest(value.encode(), cluster.get_secret_value().encode()):
        raise StartupError(f"admin_secret is the cluster secret; they must differ; {how}")


class AdminGuard:
    """Lets the administrator in, and nobody else."""

    def __init__(self, secret: SecretStr) -> None:
        self._secret = secret.get_secret_value().encode()

    def check(self, header: str) -> None:
        """Checks an `authorization` header.

        Raises:
            WeirError: API_KEY_MISSING or API_KEY_INVALID.
        """
        if header[: len(_SCHEME)].lower() != _SCHEME:
            raise WeirError(
                Reason.API_KEY_MISSING,
                f"administration needs the admin secret as `authorization: Bearer`; {VARIABLE} "
                "of the gateway holds it",
            )
        sent = header[len(_SCHEME) :].strip().encode("utf-8", errors="surrogatepass")
        if not hmac.compare_digest(sent, self._secret):
            raise WeirError(
                Reason.API_KEY_INVALID,
                f"the admin secret is wrong; {VARIABLE} of the gateway holds it",
            )
