"""The settings of a process as its operators may see them: no secret, and where each is from."""

import os
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version as installed_version
from typing import Any

import orjson
from pydantic import BaseModel, SecretStr

from weir.process.v1.process_service_pb2 import ProcessSettings, Setting, SettingSource
from weir_core.config import ServiceSettings
from weir_core.settings_origin import Source
from weir_core.telemetry.redaction import MASK, is_hidden, mask_keys

_STARTED_NS = time.time_ns()
_LONGEST_JSON = 4_000
_SOURCES: dict[Source, "SettingSource.ValueType"] = {
    "default": SettingSource.SETTING_SOURCE_DEFAULT,
    "file": SettingSource.SETTING_SOURCE_FILE,
    "environment": SettingSource.SETTING_SOURCE_ENVIRONMENT,
    "argument": SettingSource.SETTING_SOURCE_ARGUMENT,
}


def settings_report(service: str, settings: ServiceSettings) -> ProcessSettings:
    """The settings in force of a process; `service` is its short name."""
    report = ProcessSettings(
        service=service,
        version=installed_version("tokenweir"),
        pid=os.getpid(),
        settings=sorted(_settings(settings, settings, ""), key=lambda setting: setting.name),
    )
    report.start_time.FromNanoseconds(_STARTED_NS)
    return report


def _settings(whole: ServiceSettings, group: BaseModel, path: str) -> Iterator[Setting]:
    for field, info in type(group).model_fields.items():
        name, value = f"{path}{field}", getattr(group, field)
        if isinstance(value, BaseModel):
            yield from _settings(whole, value, f"{name}.")
            continue
        given = field in group.model_fields_set
        masked = isinstance(value, SecretStr) or (is_hidden(field) and isinstance(value, str))
        yield Setting(
            name=name,
            value_json=_json(MASK if masked else value),
            source=_SOURCES[whole.origins.source(name, given=given)],
            description=info.description or "",
            variable=whole.origins.variable(name),
            masked=masked,
        )


def _json(value: Any) -> str:
    """As JSON; credentials inside a text, such as in a URL, are masked."""
    text = orjson.dumps(_plain(value), default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    if len(text) <= _LONGEST_JSON:
        return text
    return orjson.dumps(f"{text[:_LONGEST_JSON]}... ({len(text)} characters)").decode()


def _plain(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return MASK
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(one) for one in value]
    return mask_keys(value) if isinstance(value, str) else value
