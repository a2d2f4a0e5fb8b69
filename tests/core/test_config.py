from pathlib import Path
from typing import Any

import pytest
from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from weir_core.config import ServiceSettings, SettingsGroup, load_settings
from weir_core.errors.startup import StartupError


class QueueSettings(SettingsGroup):
    max_items: int = Field(default=100, ge=1, le=1_000)
    pepper: SecretStr = SecretStr("default")


class DemoSettings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="WEIR_DEMO__")

    grpc_address: str = "127.0.0.1:0"
    peers: list[str] = Field(default_factory=list)
    queue: QueueSettings = QueueSettings()
    api_secret: str = Field(default="", max_length=3)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OTEL_EXPORTER_OTLP_ENDPOINT", "WEIR_CLUSTER_TOKEN"):
        monkeypatch.delenv(variable, raising=False)


def load(*argv: str) -> DemoSettings:
    return load_settings(DemoSettings, argv)


def config_file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "weir.yaml"
    path.write_text(text, encoding="utf-8")
    return f"--config={path}"


def test_each_source_wins_over_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load().queue.max_items == 100
    file = config_file(tmp_path, "queue: {max_items: 10}\ngrpc_address: 127.0.0.1:7\n")
    assert load(file).queue.max_items == 10
    monkeypatch.setenv("WEIR_DEMO__QUEUE__MAX_ITEMS", "20")
    assert load(file).queue.max_items == 20
    assert load(file, "--queue.max-items", "30").queue.max_items == 30
    assert load(file, "--queue.max-items=30").grpc_address == "127.0.0.1:7"
    monkeypatch.setenv("WEIR_DEMO__CONFIG", file.partition("=")[2])
    assert load().grpc_address == "127.0.0.1:7"


def test_lists_flags_and_shared_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
    monkeypatch.setenv("WEIR_CLUSTER_TOKEN", "s3cret")
    settings = load("--peers", "a", "--peers", "b", "--log-exception-messages")
    assert settings.peers == ["a", "b"]
    assert settings.log_exception_messages
    assert settings.otlp_endpoint == "http://127.0.0.1:4317"
    assert settings.cluster_token == SecretStr("s3cret")
    assert "s3cret" not in repr(settings)
    assert load("--otlp-endpoint", "").otlp_endpoint == ""


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["--queue.max-items", "0"], ["queue.max_items", "'0'", "greater than or equal to 1"]),
        (["--queue.max-items", "x"], ["queue.max_items", "'x'", "integer"]),
        (["--trace-sample-ratio", "2"], ["trace_sample_ratio", "'2'", "less than or equal to 1"]),
        (["--trace-sample-ratio", "nan"], ["trace_sample_ratio", "nan"]),
        (["--log-level", "LOUD"], ["log_level", "'LOUD'", "'DEBUG'", "'ERROR'"]),
        (["--no-such-flag", "1"], ["--no-such-flag"]),
        (["--queue.nope", "1"], ["--queue.nope"]),
        (["--config", "/nonexistent/x.yaml"], ["/nonexistent/x.yaml", "cannot be read"]),
    ],
)
def test_a_bad_setting_is_one_line_with_field_value_and_bound(
    argv: list[str], parts: list[str]
) -> None:
    with pytest.raises(StartupError) as caught:
        load(*argv)
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_the_line_names_flag_and_variable() -> None:
    with pytest.raises(StartupError, match=r"--queue\.max-items.*WEIR_DEMO__QUEUE__MAX_ITEMS"):
        load("--queue.max-items", "0")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("queue: {max_item: 10}", "queue.max_item is no setting"),
        ("gprc_address: x", "gprc_address is no setting"),
        ("queue: {max_items: 0}", "greater than or equal to 1"),
        ("- a\n- b", "mapping"),
        ("a: [", "not YAML"),
        ("1: 2", "mapping"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(StartupError) as caught:
        load(config_file(tmp_path, text))
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_empty_file_is_fine(tmp_path: Path) -> None:
    assert load(config_file(tmp_path, "# nothing\n")) == load(config_file(tmp_path, ""))


@pytest.mark.parametrize("variable", ["WEIR_DEMO__NOPE", "WEIR_DEMO__QUEUE__NOPE"])
def test_an_unknown_variable_is_refused(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(StartupError, match="no setting"):
        load()


def test_variables_of_other_services_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_GATEWAY__NOPE", "1")
    load()


def test_a_bad_secret_is_not_shown() -> None:
    with pytest.raises(StartupError) as caught:
        load("--api-secret", "hunter2hunter2")
    assert "hunter2" not in str(caught.value)
    assert "api_secret" in str(caught.value)


def test_help_ends_with_success(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        load("--help")
    assert caught.value.code == 0
    assert "--queue.max-items" in capsys.readouterr().out


def test_settings_cannot_be_changed_afterwards() -> None:
    settings: Any = load()
    with pytest.raises(ValueError, match="frozen"):
        settings.grpc_address = "x"
