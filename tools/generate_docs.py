"""Fills the generated parts of docs/ (what `make proto` runs): error table, settings tables,
commands, HTTP routes, gRPC messages, decisions.

A generated part stands between `<!-- begin generated: NAME -->` and `<!-- end generated -->`;
the rest of a page is written by hand. `--check` changes nothing and fails if a page is behind.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from command_line import command_line
from decision_list import decision_list
from directory_fields import policy_fields, pool_fields
from generated_files import write_or_check
from messages import PACKAGES, messages
from metrics_reference import SERVICES as MEASURED
from metrics_reference import metrics_table
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from routes import routes
from spans_reference import attributes_table, spans_table

from weir_core.config import ServiceSettings
from weir_core.errors import WIRE_CODES

ROOT = Path(__file__).resolve().parents[1]
SERVICES = ("gateway", "ratelimiter", "scheduler", "worker")
_PROTO = ROOT / "protos" / "weir" / "common" / "v1" / "error_reason.proto"
_PART = re.compile(
    r"(<!-- begin generated: (?P<name>[\w-]+) -->\n).*?(<!-- end generated -->)", re.DOTALL
)

Part = Callable[[], str]


def pages() -> dict[Path, dict[str, Part]]:
    """Each page with its generated parts by name."""
    settings: dict[str, Part] = {name: partial(service_table, name) for name in SERVICES}
    reference = ROOT / "docs" / "api" / "reference"
    return {
        ROOT / "docs" / "cli.md": {"commands": command_line},
        ROOT / "docs" / "api" / "routes.md": {"routes": routes},
        ROOT / "docs" / "traces.md": {"spans": spans_table, "span-attributes": attributes_table},
        ROOT / "docs" / "metrics.md": {
            f"metrics-{re.sub('[ _]', '-', service)}": partial(metrics_table, service)
            for service in MEASURED
        },
        ROOT / "docs" / "decisions" / "README.md": {"decisions": decision_list},
        **{
            reference / f"{package}.md": {"messages": partial(messages, package)}
            for package in PACKAGES
        },
        ROOT / "docs" / "api" / "errors.md": {"errors": errors_table},
        ROOT / "docs" / "configuration.md": {
            "every-service": common_table,
            **settings,
            "policy-fields": policy_fields,
            "pool-fields": pool_fields,
        },
    }


def filled(text: str, parts: dict[str, Part]) -> str:
    """The page with its generated parts made anew. Raises KeyError for a part nobody makes."""
    found = {match["name"] for match in _PART.finditer(text)}
    if found != set(parts):
        raise KeyError(f"generated parts are {sorted(found)}; they must be {sorted(parts)}")
    return _PART.sub(lambda match: f"{match[1]}\n{parts[match['name']]()}\n{match[3]}", text)


def errors_table() -> str:
    """Every reason with its codes and its meaning, in the order of the proto."""
    meaning = _reason_comments()
    rows = [
        f"| `{reason}` | {wire.grpc} | {wire.http} | `{wire.type}` | `{wire.code}` "
        f"| {meaning[reason]} |"
        for reason, wire in WIRE_CODES.items()
    ]
    head = "| reason | gRPC | HTTP | `type` | `code` | meaning |\n|---|---|---|---|---|---|"
    return "\n".join([head, *rows])


def common_table() -> str:
    """The settings that every service has."""
    return _table(ServiceSettings, skip=set())


def service_table(service: str) -> str:
    """A service's own settings."""
    settings = _settings_class(service)
    prefix = settings.model_config.get("env_prefix", "")
    intro = f"`python -m weir_{service}`, environment prefix `{prefix}`."
    same = {
        name
        for name, field in ServiceSettings.model_fields.items()
        if repr(settings.model_fields[name]) == repr(field)
    }
    return f"{intro}\n\n{_table(settings, skip=same)}"


def _settings_class(service: str) -> type[ServiceSettings]:
    module = import_module(f"weir_{service}.settings")
    (found,) = (
        value
        for _, value in inspect.getmembers(module, inspect.isclass)
        if issubclass(value, ServiceSettings) and value is not ServiceSettings
    )
    return found


def _table(model: type[BaseModel], skip: set[str]) -> str:
    head = "| setting | type and bounds | default | what it is |\n|---|---|---|---|"
    return "\n".join([head, *_rows(model, "", skip)])


def _rows(model: type[BaseModel], prefix: str, skip: set[str]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if name in skip:
            continue
        if inspect.isclass(field.annotation) and issubclass(field.annotation, BaseModel):
            yield from _rows(field.annotation, f"{prefix}{name}.", set())
        else:
            cells = (f"`{prefix}{name}`", _kind(field), _default(field), field.description or "")
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _kind(field: FieldInfo) -> str:
    text = _type_name(field.annotation)
    bounds = [
        f"{sign} {getattr(rule, name):g}"
        for rule in field.metadata
        for name, sign in (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<"))
        if getattr(rule, name, None) is not None
    ]
    return ", ".join([text, *bounds])


def _type_name(annotation: Any) -> str:
    arguments = get_args(annotation)
    if arguments and all(isinstance(argument, str) for argument in arguments):
        return " / ".join(f"`{argument}`" for argument in arguments)
    if arguments:
        named = [_type_name(argument) for argument in arguments if argument is not type(None)]
        origin = getattr(annotation, "__name__", "")
        return (
            f"{origin} of {', '.join(named)}" if origin in {"list", "dict", "tuple"} else named[0]
        )
    return {"SecretStr": "secret"}.get(name := getattr(annotation, "__name__", "any"), name)


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "from the environment" if field.default_factory else "required"
    default = field.default
    if isinstance(default, SecretStr):  # one that stands in the source is none
        default = default.get_secret_value()
    if default in (None, ""):
        return "none" if default is None else "empty"
    return f"`{default}`"


def _reason_comments() -> dict[str, str]:
    comments: dict[str, str] = {}
    said: list[str] = []
    for line in _PROTO.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text.startswith("//"):
            said.append(text.removeprefix("//").strip())
            continue
        if match := re.match(r"ERROR_REASON_(\w+) = ", text):
            comments[match[1]] = " ".join(said)
        said = []
    return comments


def main() -> int:
    """See the module; returns the exit status."""
    made = {
        path: filled(path.read_text(encoding="utf-8"), parts) for path, parts in pages().items()
    }
    return write_or_check(made, __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
