"""The signed record, and the memory of output lengths."""

import pytest

from tests.ratelimiter.builders import SIGNER, bucket, command
from weir_core.errors import Reason, WeirError
from weir_ratelimiter.domain.admission import admit, evaluate
from weir_ratelimiter.domain.limit import Resource
from weir_ratelimiter.domain.output_history import OutputHistory
from weir_ratelimiter.domain.reservation import Reservation
from weir_ratelimiter.record import RecordSigner
from weir_ratelimiter.store.memory_state import MemoryState


def reservation() -> Reservation:
    limits = (bucket("tpm", Resource.TOKENS, 100),)
    state = MemoryState(horizon_ms=1, most_ended=1)
    wanted = command("r", limits)
    return admit(wanted, evaluate(wanted, state, 5_000), 5_000)


def test_a_record_brings_the_reservation_back() -> None:
    made = reservation()
    record = SIGNER.read(SIGNER.sign(made, "epoch"))
    assert record.epoch == "epoch"
    assert record.rebuilt(5_000) == made


def test_no_byte_of_a_record_can_be_changed() -> None:
    signed = SIGNER.sign(reservation(), "epoch")
    for position in range(len(signed)):
        forged = bytearray(signed)
        forged[position] ^= 1
        with pytest.raises(WeirError) as caught:
            SIGNER.read(bytes(forged))
        assert caught.value.reason is Reason.RESERVATION_RECORD_INVALID


@pytest.mark.parametrize("junk", [b"", b"x" * 32, b"x" * 33, b"\0" * 70_000])
def test_junk_is_no_record(junk: bytes) -> None:
    with pytest.raises(WeirError) as caught:
        SIGNER.read(junk)
    assert caught.value.field == "record"
    assert len(caught.value.message) < 200


def test_another_cluster_signs_otherwise() -> None:
    with pytest.raises(WeirError, match="signature"):
        RecordSigner(b"other").read(SIGNER.sign(reservation(), "epoch"))
    with pytest.raises(ValueError, match="secret is empty"):
        RecordSigner(b"")


def test_output_history_is_the_nearest_rank_p95_of_the_pair() -> None:
    history = OutputHistory()
    for tokens in range(1, 20):
        history.observe("acme", "m", tokens)
    assert history.likely_output("acme", "m") is None
    history.observe("acme", "m", 20)
    assert history.likely_output("acme", "m") == 19
    for tokens in range(21, 101):
        history.observe("acme", "m", tokens)
    assert history.likely_output("acme", "m") == 95
    assert history.likely_output("other", "m") is None
    for _ in range(256):
        history.observe("acme", "m", 7)
    assert history.likely_output("acme", "m") == 7
