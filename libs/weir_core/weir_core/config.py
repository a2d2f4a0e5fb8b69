"""Settings of a process: CLI over environment over `--config` YAML over defaults.

Subclass `ServiceSettings`, give it an `env_prefix`, and call `load_settings`:

    class GatewaySettings(ServiceSettings):
        model_config = SettingsConfigDict(env_prefix="WEIR_GATEWAY__")
        grpc_address: str = "127.0.0.1:50050"

`queue.max_items` is then `--queue.max-items`, `WEIR_GATEWAY__QUEUE__MAX_ITEMS` and
`queue: {max_items: ...}` in YAML. Unknown keys are refused in all three.
"""

import os
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from weir_core.errors.startup import StartupError
from weir_core.settings_origin import Origins
from weir_core.telemetry.redaction import MASK, is_hidden, mask_keys

_file_values: ContextVar[Mapping[str, Any]] = ContextVar(
    "weir_config_file", default=MappingProxyType({})
)


class SettingsGroup(BaseModel):
    """A nested group of settings; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TlsSettings(SettingsGroup):
    """TLS of the connections between services, which check each other; empty: plain."""

    certificate: str = Field(
        default="", description="PEM file of the own certificate, intermediates after it"
    )
    key: str = Field(default="", description="PEM file of its private key, not encrypted")
    ca: str = Field(
        default="", description="PEM file of the certificates that sign those of all services"
    )
    peer_domain: str = Field(
        default="",
        description="certificates must be of SERVICE.DOMAIN, such as scheduler.weir.internal; "
        "empty: of the host that a service is reached at",
    )


class TenantStore(SettingsGroup):
    """Where telemetry of one tenant goes, and then nowhere else."""

    log_file: str = Field(
        default="", description="file that its log lines are appended to; empty: with the others"
    )
    otlp_endpoint: str = Field(
        default="", description="OTLP/gRPC endpoint of its traces; empty: with the others"
    )


class ServiceSettings(BaseSettings):
    """What every service can be told; subclasses add their own and set `env_prefix`."""

    model_config = SettingsConfigDict(
        env_prefix="WEIR__",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        validate_default=True,
        cli_kebab_case=True,
        cli_exit_on_error=False,
        cli_implicit_flags=True,
        cli_hide_none_type=True,
        cli_avoid_json=True,
    )

    config: str = Field(default="", description="YAML file with settings")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_exception_messages: bool = Field(
        default=False, description="log messages of unexpected exceptions; they can quote prompts"
    )
    otlp_endpoint: str = Field(
        default_factory=lambda: os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", ""),
        description="OTLP/gRPC endpoint for traces, such as http://127.0.0.1:4317; empty: none",
    )
    trace_sample_ratio: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="share of new traces recorded; a caller that decided decides",
    )
    trace_errors: Literal["all", "faults", "none"] = Field(
        default="all",
        description="errors whose traces are exported although they were not to be recorded: "
        "`all`, `faults` (of ours; no refusals) or `none`",
    )
    trace_errors_per_s: float = Field(
        default=10,
        ge=0,
        le=10_000,
        description="such traces a second, of faults and of refusals each",
    )
    tenant_stores: dict[str, TenantStore] = Field(
        default_factory=dict,
        description="by tenant id: `log_file` and `otlp_endpoint` of its own (docs/privacy.md)",
    )
    metrics_address: str = Field(
        default="127.0.0.1:0", description="host:port of /metrics and /healthz; empty: none"
    )
    cluster_token: SecretStr | None = Field(
        default_factory=lambda: _secret_from("WEIR_CLUSTER_TOKEN"),
        description="secret between services; better set by environment WEIR_CLUSTER_TOKEN",
    )
    tls: TlsSettings = Field(
        default=TlsSettings(), description="TLS between services (docs/security.md)"
    )
    drain_s: float = Field(default=30, ge=0, le=3600, description="seconds given to running work")
    grace_s: float = Field(
        default=5, ge=0, le=600, description="seconds given to open RPCs after that"
    )
    supervisor_pid: int = Field(
        default=0,
        ge=0,
        description="parent process; its death ends this one, and SIGINT is ignored",
    )

    _origins: Origins | None = PrivateAttr(None)

    @property
    def origins(self) -> Origins:
        """Where the values come from, as far as `load_settings` read them."""
        return self._origins or Origins(_prefix(type(self)), made=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Explicit arguments, environment, YAML file; pydantic-settings puts the CLI first."""
        file = InitSettingsSource(settings_cls, init_kwargs=dict(_file_values.get()))
        return init_settings, env_settings, file


S = TypeVar("S", bound=ServiceSettings)


def load_settings(cls: type[S], argv: Sequence[str], *, prog: str = "weir") -> S:
    """Reads the settings of a process.

    Args:
        cls: the settings class.
        argv: arguments without the program's name.
        prog: program name for `--help`.

    Raises StartupError, one line with field, value and bound, for a bad or unknown setting;
    SystemExit(0) after `--help`.
    """
    _refuse_unknown_environment(cls)
    file = _read_file(_config_path(cls, argv))
    token = _file_values.set(file)
    try:
        cli: dict[str, Any] = {"_cli_parse_args": list(argv), "_cli_prog_name": prog}
        settings = cls(**cli)
        settings._origins = Origins.of(_prefix(cls), argv, file)
        return settings
    except ValidationError as exc:
        raise StartupError(_explained(cls, exc)) from None
    except SettingsError as exc:
        raise StartupError(mask_keys(str(exc))) from None
    finally:
        _file_values.reset(token)


def _secret_from(variable: str) -> SecretStr | None:
    value = os.environ.get(variable, "")
    return SecretStr(value) if value else None


def _prefix(cls: type[ServiceSettings]) -> str:
    return str(cls.model_config.get("env_prefix", ""))


def _config_path(cls: type[ServiceSettings], argv: Sequence[str]) -> str:
    path = os.environ.get(f"{_prefix(cls)}CONFIG", "")
    for here, after in zip(argv, [*argv[1:], ""], strict=False):
        if here == "--config":
            path = after
        elif here.startswith("--config="):
            path = here.removeprefix("--config=")
    return path


def _read_file(path: str) -> Mapping[str, Any]:
    if not path:
        return {}
    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        raise StartupError(f"--config {path} cannot be read: {exc}") from None
    except yaml.YAMLError as exc:
        raise StartupError(f"--config {path} is not YAML: {exc}") from None
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise StartupError(f"--config {path} must be a mapping of setting names to values")
    return values


def _refuse_unknown_environment(cls: type[ServiceSettings]) -> None:
    prefix = _prefix(cls).lower()
    for variable in os.environ:
        if variable.lower().startswith(prefix):
            name = variable.lower().removeprefix(prefix).split("__")[0]
            if name not in cls.model_fields:
                raise StartupError(f"environment variable {variable} is no setting of {prefix}")


def _explained(cls: type[ServiceSettings], exc: ValidationError) -> str:
    errors = exc.errors(include_url=False)
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return _sentence(cls, errors[0]) + more


def _sentence(cls: type[ServiceSettings], error: ErrorDetails) -> str:
    path = [str(part) for part in error["loc"]]
    name = ".".join(path)
    if error["type"] == "extra_forbidden":
        return f"{name} is no setting; see --help"
    bound = error["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    flag = "--" + name.replace("_", "-")
    variable = _prefix(cls) + "__".join(path).upper()
    shown = _shown(path, error["input"])
    return f"{name} is {shown}; it must be {bound} (set {flag} or {variable})"


def _shown(path: Sequence[str], value: object) -> str:
    hidden = any(is_hidden(part) or part == "cluster_token" for part in path)
    return MASK if hidden else mask_keys(repr(value))[:120]
