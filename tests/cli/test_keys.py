import hashlib
import re

import yaml

from tests.cli.command import weir
from weir_gateway.directory.file import parse_document


def test_a_made_key_and_its_entry_belong_together_and_the_gateway_reads_it() -> None:
    made = weir("keys", "create", "--user", "alice", "--name", "it's: hers")
    assert made.returncode == 0, made.stderr
    match = re.match(r"key \(shown once\): (wr_live_\w+)\n\n(keys:\n.*)", made.stdout, re.DOTALL)
    assert match
    key, entry = match[1], yaml.safe_load(match[2])
    assert entry["keys"][0]["hash"] == f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"
    tenant = {"id": "acme", "plan": "free", "users": [{"id": "alice"}], **entry}
    read = parse_document(yaml.safe_dump({"tenants": [tenant]}), "file").tenants[0].keys[0]
    assert (read.user, read.name) == ("alice", "it's: hers")
    again = weir("keys", "hash", "--user", "alice", given=f"{key}\n")
    assert yaml.safe_load(again.stdout)["keys"][0]["hash"] == entry["keys"][0]["hash"]
    assert key not in again.stdout


def test_what_is_no_key_is_not_quoted() -> None:
    refused = weir("keys", "hash", given="wr_live_secret\n")
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: standard input holds no key of the form")
    assert "secret\n" not in refused.stderr


def test_a_bad_environment_names_the_option() -> None:
    refused = weir("keys", "create", "--user", "a", "--env", "BAD!")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "change --env" in refused.stderr


def test_the_version_is_printed() -> None:
    assert re.fullmatch(r"tokenweir \d+\.\d+\.\d+\n", weir("version").stdout)
