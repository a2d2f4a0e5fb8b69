"""`weir tenants|users|plans|keys|admin` against a real gateway on a database."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.gateway.fake_server import TOKEN
from tests.gateway.support import document_of
from weir_cli.administration import admin_door
from weir_cli.app import app
from weir_cli.caller_door import check_caller
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.known_tenants import check_tenants
from weir_cli.doctor.window import Window
from weir_cli.errors import CommandError
from weir_cli.http_door import HttpDoor
from weir_cli.stack.running import ratelimiter_door
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.telemetry import Telemetry
from weir_core.telemetry.tracing import Tracing
from weir_gateway.app import GatewayApp
from weir_gateway.keys import generate_key, is_well_formed, public_id
from weir_gateway.settings import GatewaySettings

SECRET = "an-admin-secret-of-more-than-32-characters"
KEY = generate_key()


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a gateway with the role control, in a loop of its own."""
    folder = tmp_path_factory.mktemp("control")
    (folder / "directory.yaml").write_text(yaml.safe_dump(document_of(KEY)))
    settings: dict[str, Any] = {
        "role": "control",
        "http_address": "127.0.0.1:0",
        "grpc_address": "127.0.0.1:0",
        "directory_file": str(folder / "directory.yaml"),
        "database_url": f"sqlite:///{folder}/directory.sqlite",
        "admin_secret": SECRET,
        "cluster_token": TOKEN,
    }
    started, ended = threading.Event(), threading.Event()
    addresses: list[str] = []

    async def serve() -> None:
        telemetry = Telemetry(tracing=Tracing("gateway"), registry=create_registry())
        gateway = GatewayApp(GatewaySettings(**settings), telemetry)
        try:
            await gateway.start()
            addresses.append(gateway.grpc_address)
            started.set()
            await asyncio.to_thread(ended.wait)
        finally:
            started.set()
            await gateway.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    started.wait(60)
    try:
        yield addresses[0]
    finally:
        ended.set()
        thread.join(60)


@pytest.fixture
def weir(door: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("WEIR_ADMIN_SECRET", SECRET)

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, [*arguments, "--address", door])
        if result.exception is not None:
            raise result.exception
        return result.output

    return run


def test_a_tenant_is_got_edited_put_and_removed(weir: Any, tmp_path: Path) -> None:
    file = tmp_path / "tenant.yaml"
    form = yaml.safe_load(weir("tenants", "get", "acme", "-o", "yaml"))
    assert form == {"id": "acme", "plan": "team"}
    limits = [{"resource": "tokens", "rate": "5k/min"}]
    file.write_text(yaml.safe_dump(form | {"id": "umbrella", "limits": limits}))
    stored = weir("tenants", "put", "-f", str(file))
    assert stored.startswith("tenant umbrella is stored, version ")
    listed = json.loads(weir("tenants", "ls", "-o", "json"))
    assert [tenant["id"] for tenant in listed] == ["acme", "umbrella"]
    again = weir("tenants", "get", "umbrella", "-o", "yaml")
    file.write_text(again)
    version = weir("tenants", "put", "-f", str(file)).split()[-1]
    assert weir("tenants", "get", "umbrella", "-o", "yaml") == again
    with pytest.raises(CommandError, match="changed in version"):
        weir("tenants", "put", "-f", str(file), "--expect-version", str(int(version) - 1))
    weir("tenants", "suspend", "umbrella")
    table = weir("tenants", "ls").splitlines()
    assert table[0].split() == ["ID", "NAME", "PLAN", "SUSPENDED", "LIMITS"]
    assert table[2].split() == ["umbrella", "-", "team", "yes", "tpm"]
    weir("tenants", "resume", "umbrella")
    weir("tenants", "rm", "umbrella")
    with pytest.raises(CommandError, match="there is no tenant 'umbrella'"):
        weir("tenants", "get", "umbrella")
    actions = [event["action"] for event in _audit(weir, "umbrella")]
    assert actions == ["delete", "put", "put", "put", "put"]


def test_users_and_plans_are_put_as_in_the_file(weir: Any, tmp_path: Path) -> None:
    file = tmp_path / "entry.yaml"
    file.write_text("tenant: acme\nid: bob\nlimits: [{resource: concurrency, limit: 2}]\n")
    weir("users", "put", "-f", str(file))
    assert yaml.safe_load(weir("users", "get", "acme/bob", "-o", "yaml"))["tenant"] == "acme"
    weir("users", "rm", "acme/bob")
    assert [user["id"] for user in json.loads(weir("users", "ls", "-o", "json"))] == ["alice"]
    file.write_text("id: gold\nlimits: [{resource: tokens, rate: 1M/min}]\npolicy: {weight: 9}\n")
    weir("plans", "put", "-f", str(file))
    assert json.loads(weir("plans", "get", "gold", "-o", "json"))["policy"] == {"weight": 9}
    weir("plans", "rm", "gold")
    with pytest.raises(CommandError, match="plan 'team' cannot be removed"):
        weir("plans", "rm", "team")
    file.write_text("id: gold\npolicy: {weight: 9000}\n")
    with pytest.raises(CommandError, match=r"policy.weight: .*1000"):
        weir("plans", "put", "-f", str(file))
    file.write_text("id: gold\nlimits: [{resource: concurrency, max: 2}]\n")
    with pytest.raises(CommandError, match=r"^limits\[0\].max: there is no such field; docs/"):
        weir("plans", "put", "-f", str(file))
    file.write_text("id: initech\n")
    with pytest.raises(CommandError, match=r"^plan: the file must say it"):
        weir("tenants", "put", "-f", str(file))
    with pytest.raises(CommandError, match="write TENANT/USER"):
        weir("users", "get", "bob")


def test_models_pools_and_the_clusters_limits_are_put_as_in_the_file(
    weir: Any, tmp_path: Path
) -> None:
    file = tmp_path / "entry.yaml"
    pool = {
        "name": "long",
        "length": "long",
        "scheduler_policy": "priority",
        "policy_parameters": {"promote_every": 2},
        "shares": {"interactive": 5},
        "class": "batch",
        "shedding": {"curve": "power", "from": 0.25},
        "placement": {"retry_ratio": 0.5},
        "preemption": {},
        "profiles": ["big"],
        "scaling": {"min_workers": 0, "max_workers": 3, "target_use": 0.7},
    }
    file.write_text(yaml.safe_dump(pool))
    assert weir("pools", "put", "-f", str(file)).startswith("pool long is stored, version ")
    shown = yaml.safe_load(weir("pools", "get", "long", "-o", "yaml"))
    assert shown == {**pool, "isolation": "weighted", "fair_queue": "tokens"}
    file.write_text(weir("pools", "get", "long", "-o", "yaml"))
    weir("pools", "put", "-f", str(file))
    assert "long" in weir("pools", "ls")
    model = yaml.safe_load(weir("models", "served", "get", "tiny", "-o", "yaml"))
    file.write_text(yaml.safe_dump(model | {"further_pools": ["long"], "pool": "default"}))
    assert weir("models", "served", "put", "-f", str(file)).startswith("model tiny is stored")
    with pytest.raises(CommandError, match="the pool 'long' cannot be removed"):
        weir("pools", "rm", "long")
    file.write_text(yaml.safe_dump(model))
    version = int(weir("models", "served", "put", "-f", str(file)).split()[-1])
    weir("pools", "rm", "long")
    with pytest.raises(CommandError, match="there is no pool 'long'"):
        weir("pools", "get", "long")
    file.write_text("limits: [{resource: tokens, rate: 9M/min}]\n")
    assert weir("cluster", "limits", "-f", str(file)).startswith("1 limits over everybody")
    text = weir("cluster", "limits", "-o", "yaml")
    assert yaml.safe_load(text)["limits"][0]["rate"] == "9000000/60000ms"
    file.write_text(text)
    with pytest.raises(CommandError, match="changed in version"):
        weir("cluster", "limits", "-f", str(file), "--expect-version", str(version))
    file.write_text("limits: [{resource: tokens, rate: 9M/min, model: none}]\n")
    with pytest.raises(CommandError, match="there is no model 'none'"):
        weir("cluster", "limits", "-f", str(file))
    file.write_text("limits: []\n")
    weir("cluster", "limits", "-f", str(file))
    assert json.loads(weir("cluster", "limits", "-o", "json")) == {"limits": []}


def test_a_key_can_be_bounded_in_time_and_models(weir: Any) -> None:
    short = ["--tenant", "acme", "--user", "alice", "--expires", "90d", "--model", "tiny"]
    bounded = public_id(weir("keys", "create", *short).split()[-1])
    forms = {key["id"]: key for key in yaml.safe_load(weir("keys", "ls", "-o", "yaml"))}
    assert forms[bounded]["allowed_models"] == ["tiny"]
    assert forms[bounded]["expires"] > forms[bounded].get("last_used", "2026")
    with pytest.raises(CommandError, match="--expires: "):
        weir("keys", "create", *short[:4], "--expires", "soon")


def test_a_key_is_made_rotated_and_revoked_and_its_secret_is_shown_once(weir: Any) -> None:
    made = weir("keys", "create", "--tenant", "acme", "--user", "alice", "--name", "ci").split()[-1]
    assert is_well_formed(made)
    key_id = public_id(made)
    turned = weir("keys", "rotate", key_id, "--overlap", "10m").split()[-1]
    assert is_well_formed(turned)
    assert turned != made
    assert "is revoked" in weir("keys", "revoke", key_id)
    listed = weir("keys", "ls", "--tenant", "acme", "-o", "yaml")
    (entry,) = (key for key in yaml.safe_load(listed) if key["id"] == key_id)
    assert (entry["name"], entry["revoked"], entry["user"]) == ("ci", True, "alice")
    assert made not in listed
    assert "hash" not in listed
    with pytest.raises(CommandError, match="no tenant 'nobody'"):
        weir("keys", "ls", "--tenant", "nobody")
    told = _audit(weir, "acme")[:3]
    assert [event["action"] for event in told] == ["revoke", "rotate", "create"]
    assert {event["object"] for event in told} == {f"key/{key_id}"}
    assert all(event["actor"].startswith("weir:") for event in told)
    with pytest.raises(CommandError, match=r"overlap is .*30 days"):
        weir("keys", "rotate", key_id, "--overlap", "60d")


def test_the_secret_must_be_known(weir: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_ADMIN_SECRET", "x" * 40)
    with pytest.raises(CommandError, match="the admin secret is wrong"):
        weir("keys", "ls")
    monkeypatch.delenv("WEIR_ADMIN_SECRET")
    with pytest.raises(CommandError, match="set WEIR_ADMIN_SECRET"):
        weir("keys", "ls")


def test_a_secret_that_leaves_the_machine_in_plain_text_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEIR_ADMIN_SECRET", SECRET)
    monkeypatch.setenv("WEIR_CLUSTER_TOKEN", SECRET)
    for address in ("127.0.0.1:8001", "[::1]:8001", "localhost:8001"):
        admin_door(address, None)
        ratelimiter_door(address, None)
        check_caller(address, "wr_key", None)
        HttpDoor(f"http://{address}", "wr_key", None).close()
    check_caller("gateway.example.com:8001", "wr_key", tmp_path / "ca.pem")
    HttpDoor("https://gateway.example.com", "wr_key", None).close()
    assert capsys.readouterr().err == ""
    admin_door("gateway.example.com:8001", None)
    ratelimiter_door("192.0.2.7:8002", None)
    check_caller("gateway.example.com:8001", "wr_key", None)
    HttpDoor("http://gateway.example.com", "wr_key", None).close()
    admin, cluster, *callers = capsys.readouterr().err.splitlines()
    assert admin.startswith("warning: the admin secret goes to gateway.example.com:8001 in plain")
    assert cluster.startswith("warning: the cluster secret goes to 192.0.2.7:8002 in plain text")
    assert [line.split(" in plain")[0] for line in callers] == [
        "warning: the API key goes to gateway.example.com:8001",
        "warning: the API key goes to gateway.example.com:80",
    ]
    assert not any(secret in admin + cluster + "".join(callers) for secret in (SECRET, "wr_key"))


def _audit(weir: Any, tenant: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(
        weir("admin", "audit", "--tenant", tenant, "-o", "json")
    )
    return events


def test_the_doctor_knows_the_tenants_of_the_directory(
    door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_ADMIN_SECRET", SECRET)
    quiet = Evidence(Window([]), Window([]))
    check_tenants(quiet, {"TENANT": "acme"}, door, None)
    with pytest.raises(CommandError) as told:
        check_tenants(quiet, {"TENANT": "acme", "--against": "nobody"}, door, None)
    assert str(told.value).startswith("--against is 'nobody': there is no such tenant; known: acme")
