"""The settings of a process as its operators see them: whence each comes, and no secret."""

import json
from pathlib import Path

import pytest
from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from weir.process.v1.process_service_pb2 import Setting, SettingSource
from weir_core.config import ServiceSettings, SettingsGroup, TenantStore, load_settings
from weir_core.process.settings_report import settings_report


class QueueSettings(SettingsGroup):
    max_items: int = Field(default=10, description="longest queue")
    patience_s: float = 1.5


class DemoSettings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="WEIR_DEMO__")

    name: str = "demo"
    drop: bool = False
    url: str = "http://127.0.0.1:1"
    store: SecretStr = SecretStr("")
    queue: QueueSettings = QueueSettings()


def reported(settings: ServiceSettings) -> dict[str, Setting]:
    return {setting.name: setting for setting in settings_report("demo", settings).settings}


def source(setting: Setting) -> str:
    return SettingSource.Name(setting.source).removeprefix("SETTING_SOURCE_")


def test_each_value_tells_where_it_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "demo.yaml"
    file.write_text("name: filed\ndrop: true\nqueue: {max_items: 3, patience_s: 2}\n")
    monkeypatch.setenv("WEIR_DEMO__QUEUE__MAX_ITEMS", "4")
    monkeypatch.setenv("WEIR_CLUSTER_TOKEN", "t" * 40)
    settings = load_settings(DemoSettings, ["--config", str(file), "--no-drop", "--name=said"])
    told = reported(settings)
    shown = {name: (json.loads(one.value_json), source(one)) for name, one in told.items()}
    assert shown["name"] == ("said", "ARGUMENT")
    assert shown["drop"] == (False, "ARGUMENT")
    assert shown["queue.max_items"] == (4, "ENVIRONMENT")
    assert shown["queue.patience_s"] == (2.0, "FILE")
    assert shown["grace_s"] == (5.0, "DEFAULT")
    assert shown["config"] == (str(file), "ARGUMENT")
    assert shown["cluster_token"][1] == "ENVIRONMENT"
    assert told["queue.max_items"].variable == "WEIR_DEMO__QUEUE__MAX_ITEMS"
    assert told["queue.max_items"].description == "longest queue"
    assert sorted(told) == [*told], "by name"


def test_no_secret_is_told() -> None:
    secrets = {
        "store": SecretStr("redis://:hunter2-hunter2@host/0"),
        "cluster_token": SecretStr("c" * 40),
        "url": "postgresql://user:hunter2-hunter2@host/db",
        "tenant_stores": {"acme": TenantStore(otlp_endpoint="http://u:hunter2-hunter2@otlp:1")},
    }
    settings = DemoSettings(**secrets)  # type: ignore[arg-type]
    report = settings_report("demo", settings)
    assert "hunter2" not in str(report)
    assert "c" * 40 not in str(report)
    told = {setting.name: setting for setting in report.settings}
    assert told["store"].masked
    assert source(told["store"]) == "ARGUMENT"
    assert "otlp:1" in told["tenant_stores"].value_json


def test_a_long_value_is_cut() -> None:
    told = reported(DemoSettings(name="x " * 5_000))
    assert len(told["name"].value_json) < 5_000
    json.loads(told["name"].value_json)
