import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_core.telemetry.redaction import mask_keys
from weir_gateway.keys import generate_key, hash_key, is_well_formed, public_id


def test_a_key_has_prefix_id_secret_and_checksum() -> None:
    key = generate_key("dev")
    prefix, env, key_id, rest = key.secret.split("_")
    assert (prefix, env, key_id) == ("wr", "dev", key.id)
    assert len(rest) == 28 + 6
    assert key.hash == hashlib.sha256(key.secret.encode()).digest() == hash_key(key.secret)
    assert public_id(key.secret) == key.id
    assert key.secret not in repr(key)


def test_logs_mask_keys() -> None:
    secret = generate_key("live").secret
    masked = mask_keys(f"it said {secret}, really")
    assert secret[8:] not in masked
    assert masked.endswith(", really")


def test_keys_differ() -> None:
    assert len({generate_key().secret for _ in range(100)}) == 100


@given(position=st.integers(0, 100), char=st.sampled_from("0aZ_-\u00e4 "))
def test_one_wrong_character_is_noticed_offline(position: int, char: str) -> None:
    secret = generate_key("live").secret
    position %= len(secret)
    changed = secret[:position] + char + secret[position + 1 :]
    assert is_well_formed(secret)
    assert is_well_formed(changed) == (changed == secret)


@pytest.mark.parametrize("text", ["", "wr_", "sk-123", "wr_dev_1_2", "\ud800", "wr_dev_" * 1000])
def test_other_texts_are_not_keys(text: str) -> None:
    assert not is_well_formed(text)
    with pytest.raises(ValueError, match="not an API key"):
        public_id(text)
    assert len(hash_key(text)) == 32


@pytest.mark.parametrize("env", ["", "Live", "toolongenv", "a_b"])
def test_environments_are_checked(env: str) -> None:
    with pytest.raises(ValueError, match="environment"):
        generate_key(env)
