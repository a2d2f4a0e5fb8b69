"""Secrets of webhooks in the database: encrypted, rotated with their key, never lost silently."""

import pytest
from sqlalchemy import select, update

from weir_core.clock import ManualClock
from weir_core.errors import Reason, WeirError
from weir_gateway.state.database import StateDatabase
from weir_gateway.webhooks.outbox import Outbox
from weir_gateway.webhooks.secret_box import CannotOpen, SecretBox
from weir_gateway.webhooks.secret_store import SecretStore
from weir_gateway.webhooks.tables import secrets

OLD, NEW = "o" * 32, "n" * 32


def store_of(state: StateDatabase, secret: str, *before: str) -> SecretStore:
    return SecretStore(state, ManualClock(), SecretBox(secret, before))


async def stored(state: StateDatabase) -> list[tuple[str, str]]:
    statement = select(secrets.c.secret, secrets.c.previous).order_by(secrets.c.tenant_id)
    async with state.reading() as connection:
        return [(row.secret, row.previous) for row in await connection.execute(statement)]


async def test_none_lies_in_clear_and_each_is_bound_to_its_tenant(state: StateDatabase) -> None:
    store, box = store_of(state, OLD), SecretBox(OLD)
    first = (await store.get("acme")).secret
    turned = await store.rotate("acme", 60_000)
    assert turned.previous == first
    assert turned.secret.startswith("whsec_")
    ((secret, previous),) = await stored(state)
    for sealed in (secret, previous):
        assert sealed.startswith(box.prefix)
        assert "whsec_" not in sealed
    assert box.open("acme", secret) == turned.secret
    with pytest.raises(CannotOpen):
        box.open("globex", secret)
    with pytest.raises(CannotOpen):
        box.open("acme", secret[:-8] + "AAAAAAA=")


async def test_clear_ones_of_an_earlier_release_are_encrypted(state: StateDatabase) -> None:
    store = store_of(state, OLD)
    for tenant in ("acme", "globex"):
        await store.get(tenant)
    async with state.writing() as connection:
        await connection.execute(update(secrets).values(secret="whsec_YQ==", previous="whsec_Yg=="))
    await store.seal_anew()
    for pair in await stored(state):
        assert all(sealed.startswith(SecretBox(OLD).prefix) for sealed in pair)
    found = await store.get("acme")
    assert (found.secret, found.previous) == ("whsec_YQ==", "whsec_Yg==")


async def test_a_new_key_reads_what_the_one_before_encrypted_and_replaces_it(
    state: StateDatabase,
) -> None:
    before = await store_of(state, OLD).get("acme")
    await store_of(state, NEW, OLD).seal_anew()
    assert await store_of(state, NEW).get("acme") == before
    with pytest.raises(WeirError) as refusal:
        await store_of(state, OLD).get("acme")
    assert refusal.value.reason is Reason.STATE_CONFLICT
    assert "state_key_before" in refusal.value.message


async def test_one_that_cannot_be_decrypted_holds_up_no_other_tenant(state: StateDatabase) -> None:
    await store_of(state, OLD).get("acme")
    clock = ManualClock()
    outbox = Outbox(state, store_of(state, NEW), clock)
    async with state.writing() as connection:
        for tenant in ("acme", "globex"):
            await outbox.enqueue(connection, tenant, "job.completed", {}, "https://a.b/c")
    taken = {message.tenant_id: message.secrets for message in await outbox.take_due(10, ())}
    assert taken["acme"] == ()
    assert len(taken["globex"]) == 1
