"""Webhooks: what is sent, to whom, and how often."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
from sqlalchemy import select
from standardwebhooks import Webhook, WebhookVerificationError

from tests.gateway.jobs.receiver import Receiver, receiving
from weir_core.clock import SystemClock
from weir_core.errors import WeirError
from weir_core.telemetry.metrics import create_registry
from weir_gateway.metrics import GatewayMetrics
from weir_gateway.state.database import StateDatabase
from weir_gateway.webhooks.addresses import is_public
from weir_gateway.webhooks.connector import Connector
from weir_gateway.webhooks.dispatcher import SCHEDULE_S, Dispatcher, wait_ms
from weir_gateway.webhooks.endpoint_store import EndpointStore
from weir_gateway.webhooks.message import Message
from weir_gateway.webhooks.outbox import LARGEST, Outbox
from weir_gateway.webhooks.secret_box import SecretBox
from weir_gateway.webhooks.secret_store import SecretStore
from weir_gateway.webhooks.sender import Sender
from weir_gateway.webhooks.signature import new_secret
from weir_gateway.webhooks.tables import messages
from weir_gateway.webhooks.url import check_webhook_url


class LateClock(SystemClock):
    added_s = 0

    def now_us(self) -> int:
        return super().now_us() + self.added_s * 1_000_000


class Desk:
    """An outbox and who delivers it."""

    def __init__(self, state: StateDatabase, *, private: bool = True, timeout_s: float = 5) -> None:
        self.clock = LateClock()
        self.state = state
        self.secrets = SecretStore(state, self.clock, SecretBox("a" * 32))
        self.outbox = Outbox(state, self.secrets, self.clock)
        sender = Sender(Connector(private=private), self.clock, timeout_s=timeout_s)
        metrics = GatewayMetrics(create_registry())
        self.dispatcher = Dispatcher(self.outbox, sender, metrics)
        self.dispatcher.start()

    async def tell(self, url: str = "", tenant: str = "acme", **data: object) -> int:
        async with self.state.writing() as connection:
            told = await self.outbox.enqueue(connection, tenant, "job.completed", data, url)
        self.dispatcher.wake()
        return told

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(15):
            while not condition():
                self.dispatcher.wake()
                await asyncio.sleep(0.01)

    async def rows(self) -> Sequence[object]:
        async with self.state.reading() as connection:
            return (await connection.execute(select(messages))).all()

    async def until_row(self, **wanted: object) -> None:
        """The only message is as wanted."""
        async with asyncio.timeout(15):
            while True:
                (row,) = await self.rows()
                if all(getattr(row, name) == value for name, value in wanted.items()):
                    return
                await asyncio.sleep(0.01)


@pytest.fixture
async def desk(state: StateDatabase) -> AsyncIterator[Desk]:
    made = Desk(state)
    yield made
    await made.dispatcher.stop()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as made:
        yield made


async def test_what_is_sent_is_verified_by_the_library_of_the_standard(
    desk: Desk, receiver: Receiver
) -> None:
    assert await desk.tell(receiver.url, id="job_1") == 1
    await desk.until(lambda: receiver.received)
    (got,) = receiver.received
    told = Webhook((await desk.secrets.get("acme")).secret).verify(got.body, got.headers)
    assert told["type"] == "job.completed"
    assert told["data"] == {"id": "job_1"}
    assert got.headers["webhook-id"] == told["id"]
    assert {"timestamp", "created_at", "object"} <= told.keys()
    assert got.headers["content-type"] == "application/json"
    with pytest.raises(WebhookVerificationError):
        Webhook((await desk.secrets.get("globex")).secret).verify(got.body, got.headers)


async def test_after_a_rotation_both_secrets_verify_until_the_overlap_ends(
    desk: Desk, receiver: Receiver
) -> None:
    old = (await desk.secrets.get("acme")).secret
    rotated = await desk.secrets.rotate("acme", 3_600_000)
    assert rotated.previous == old
    assert rotated.secret != old
    await desk.tell(receiver.url)
    await desk.until(lambda: receiver.received)
    for secret in (old, rotated.secret):
        Webhook(secret).verify(receiver.received[0].body, receiver.received[0].headers)
    await desk.secrets.rotate("acme", 0)
    await desk.tell(receiver.url)
    await desk.until(lambda: len(receiver.received) == 2)
    with pytest.raises(WebhookVerificationError):
        Webhook(rotated.secret).verify(receiver.received[1].body, receiver.received[1].headers)


async def test_what_fails_is_sent_again_under_the_same_id(desk: Desk, receiver: Receiver) -> None:
    receiver.statuses = [500, 302, 200]
    receiver.headers = {"location": f"http://{receiver.address}/elsewhere"}
    await desk.tell(receiver.url)
    for number in (1, 2):
        await desk.until_row(attempts=number, last_status=[500, 302][number - 1])
        desk.clock.added_s += 400
    await desk.until(lambda: len(receiver.received) == 3)
    await desk.until_row(due_ms=0, last_status=200)
    # A redirect is a failure: it is followed nowhere.
    assert {got.path for got in receiver.received} == {"/hook"}
    assert len({got.headers["webhook-id"] for got in receiver.received}) == 1
    assert len({got.headers["webhook-timestamp"] for got in receiver.received}) == 3


async def test_gone_disables_the_url_and_spares_others(desk: Desk, receiver: Receiver) -> None:
    receiver.statuses = [410]
    await desk.tell(receiver.url)
    await desk.until(lambda: receiver.received)
    await desk.until_row(due_ms=0, last_status=410)
    assert await desk.tell(receiver.url) == 0
    assert await desk.tell(receiver.url + "?other") == 1
    assert await desk.tell(receiver.url, tenant="globex") == 1


async def test_a_slow_receiver_is_given_up_and_tried_again(
    state: StateDatabase, receiver: Receiver
) -> None:
    desk = Desk(state, timeout_s=0.2)
    receiver.delay_s = 5
    try:
        await desk.tell(receiver.url)
        await desk.until_row(attempts=1, last_error="no answer within 0 s")
        (row,) = await desk.rows()
        assert row.due_ms > desk.clock.now_ms()  # type: ignore[attr-defined]
    finally:
        await desk.dispatcher.stop()


async def test_nothing_is_sent_into_private_networks(
    state: StateDatabase, receiver: Receiver
) -> None:
    desk = Desk(state, private=False)
    try:
        await desk.tell(receiver.url)
        await desk.until_row(attempts=1, last_error="its host is none of the public Internet")
        assert not receiver.received
    finally:
        await desk.dispatcher.stop()


async def test_a_name_that_changes_its_mind_gets_no_connection(receiver: Receiver) -> None:
    answers = [["93.184.216.34"], ["127.0.0.1"]]
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return answers[min(len(asked), 2) - 1]

    connector = Connector(private=False, resolve=rebinding)
    # The second answer, once the first was looked at: it is looked at as well.
    assert is_public(answers[0][0])
    await rebinding("first", 0)
    port = receiver.address.rsplit(":", 1)[1]
    sender = Sender(connector, SystemClock(), timeout_s=2)
    message = Message(
        "evt_1", "acme", f"http://innocent.example:{port}/", b"{}", 1, (new_secret(),)
    )
    sent = await sender.send(message)
    await sender.close()
    assert (sent.status, sent.error) == (0, "its host is none of the public Internet")
    assert asked == ["first", "innocent.example"]
    assert not receiver.received


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0",
        "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "224.0.0.1",
        "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254",
        "fec0::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1",
        "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:0:7f00:1::80ff:fffe",
        "::ffff:0:127.0.0.1", "::ffff:0:a9fe:a9fe", "64:ff9b:1::7f00:1", "100::1", "5f00::1",
        "1::1", "2001:db8::1", "3fff::1", "4000::1",
        "not an address",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_addresses_that_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/", "ftp://example.com/", "example.com", "https://", "https://u:p@a.b/",
        "https://a.b/#x", "https://a.b:0/", "https://a.b:99999/", "https://a b/", "https://ä.b/",
        "https://a.b/" + "x" * 2_048,
    ],
)  # fmt: skip
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(WeirError, match="webhook_url"):
        check_webhook_url(url, allow_http=False)


def test_attempts_go_on_for_days_and_end() -> None:
    waits = [wait_ms(number) for number in range(1, len(SCHEDULE_S) + 2)]
    assert waits[-1] is None
    total_s = sum(wait or 0 for wait in waits) / 1_000
    assert 2 * 86_400 < total_s < 4 * 86_400


@pytest.mark.parametrize("host", ["a" * 64 + ".com", "a..b", "[1::2]a", "%00"])
async def test_a_url_that_is_none_after_all_is_tried_by_the_schedule(
    state: StateDatabase, host: str
) -> None:
    desk = Desk(state, private=False)
    url = f"https://{host}/?token=hush"
    check_webhook_url(url, allow_http=False)
    try:
        await desk.tell(url)
        async with asyncio.timeout(15):
            while not (await desk.rows())[0].last_error:  # type: ignore[attr-defined]
                await asyncio.sleep(0.01)
        (row,) = await desk.rows()
        now_ms = desk.clock.now_ms()
        assert row.due_ms < now_ms + 6_000  # type: ignore[attr-defined]
        assert "hush" not in row.last_error  # type: ignore[attr-defined]
    finally:
        await desk.dispatcher.stop()


async def test_urls_without_number_that_are_gone_fill_no_table(
    state: StateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir_gateway.webhooks.outbox.MOST_GONE", 3)
    clock = LateClock()
    secrets = SecretStore(state, clock, SecretBox("a" * 32))
    outbox, store = Outbox(state, secrets, clock), EndpointStore(state)
    await store.put("acme", "https://kept.example/")
    for number in range(6):
        clock.added_s += 1
        url = f"https://{number}.example/"
        for tenant in ("acme", "globex"):
            await outbox.gone(Message(f"evt_{number}", tenant, url, b"{}", 1, ()))
    await outbox.gone(Message("evt_9", "acme", "https://kept.example/", b"{}", 1, ()))
    found = await store.list("acme")
    assert [one.url for one in found if not one.registered] == [
        f"https://{number}.example/" for number in (3, 4, 5)
    ]
    assert [one.url for one in found if one.registered] == ["https://kept.example/"]
    assert len(await store.list("globex")) == 3
    async with state.writing() as connection:
        for url, told in (("https://5.example/", 0), ("https://0.example/", 1)):
            assert await outbox.enqueue(connection, "acme", "job.completed", {}, url) == told


async def test_of_one_tenant_no_more_than_its_share_is_under_way(
    state: StateDatabase, receiver: Receiver
) -> None:
    desk = Desk(state, timeout_s=60)
    receiver.delay_s = 60
    try:
        for _ in range(3):
            await desk.tell(receiver.url)
        await desk.until(lambda: len(receiver.received) == 3)
        for _ in range(12):
            await desk.tell(receiver.url)
        await desk.tell(receiver.url, tenant="globex")
        await desk.until(lambda: len(receiver.received) == 9)
        rows = await desk.rows()
        taken = Counter(row.tenant_id for row in rows if row.attempts)  # type: ignore[attr-defined]
        assert taken == {"acme": 8, "globex": 1}
    finally:
        await desk.dispatcher.stop()


async def test_old_messages_go_a_part_at_a_time(
    state: StateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir_gateway.webhooks.outbox._REMOVED_AT_ONCE", 4)
    clock = LateClock()
    outbox = Outbox(state, SecretStore(state, clock, SecretBox("a" * 32)), clock)
    async with state.writing() as connection:
        for number in range(10):
            url = f"https://{number}.example/"
            await outbox.enqueue(connection, "acme", "job.completed", {}, url)
    assert await outbox.remove_old() == 0
    clock.added_s += 8 * 86_400
    assert await outbox.remove_old() == 10
    assert await outbox.remove_old() == 0


async def test_a_payload_that_is_too_large_is_a_fault_of_ours(desk: Desk) -> None:
    with pytest.raises(ValueError, match="bytes"):
        await desk.tell("https://example.com/", filler="x" * LARGEST)
