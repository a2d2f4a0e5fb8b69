"""What a remote engine is reached with."""

from urllib.parse import urlsplit

import msgspec
from pydantic import SecretStr

from weir_core.errors import InvalidField
from weir_worker.remote.dialect import DialectName

_LEAST_SILENCE_S = 0.1


class RemoteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint that computes for this worker.

    Attributes:
        url: base URL of an OpenAI-compatible API, up to and including `/v1`; or
            `grpc://host:port` of vLLM's gRPC server.
        model: name of the model there.
        dialect: which fields an OpenAI-compatible API has; see `Dialect`.
        api_key: sent as bearer token, if any.
        silence_s: longest wait for a connection's next bytes, seconds.
        check_s: seconds between looks at its health.
        embeddings: the endpoint makes embeddings of the model.
        max_running: requests sent at once; others wait here.

    Raises:
        InvalidField: names the setting, the value and the bound.
    """

    url: str
    model: str
    dialect: DialectName = "vllm"
    api_key: SecretStr | None = None
    silence_s: float = 60.0
    check_s: float = 5.0
    embeddings: bool = False
    max_running: int = 64

    def __post_init__(self) -> None:
        if self.scheme not in ("http", "https", "grpc") or not urlsplit(self.url).netloc:
            bound = "a URL such as http://127.0.0.1:9000/v1 or grpc://127.0.0.1:50051"
            raise InvalidField("upstream_url", self.url, bound)
        if self.embeddings and self.scheme == "grpc":
            raise InvalidField("upstream_embeddings", True, "false where upstream_url is of gRPC")
        if not self.model:
            raise InvalidField("upstream_model", self.model, "the model's name at the upstream")
        if self.silence_s < _LEAST_SILENCE_S:
            raise InvalidField("upstream_silence_s", self.silence_s, f"at least {_LEAST_SILENCE_S}")

    @property
    def scheme(self) -> str:
        """`http`, `https` or `grpc`."""
        return urlsplit(self.url).scheme
