"""One table of reasons feeds gRPC and HTTP; round trips lose nothing."""

import re
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from google.protobuf.any_pb2 import Any
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st

from weir.common.v1.error_reason_pb2 import ErrorReason
from weir_core.errors import (
    WIRE_CODES,
    InvalidField,
    LimitExceeded,
    Reason,
    Violation,
    WeirError,
)
from weir_core.errors.openai import header_safe, to_body, to_http
from weir_core.errors.refusal import refused_for_now
from weir_core.errors.status import (
    ERROR_DOMAIN,
    from_rpc_error,
    from_status,
    grpc_code,
    to_status,
    to_trailers,
)

HTTP_OF_GRPC = {
    "INVALID_ARGUMENT": {400, 413},
    "FAILED_PRECONDITION": {400, 422},
    "UNAUTHENTICATED": {401},
    "PERMISSION_DENIED": {403},
    "NOT_FOUND": {404},
    "ALREADY_EXISTS": {409},
    "ABORTED": {409},
    "RESOURCE_EXHAUSTED": {429},
    "CANCELLED": {499},
    "UNIMPLEMENTED": {501},
    "UNAVAILABLE": {503},
    "DEADLINE_EXCEEDED": {504},
    "INTERNAL": {500},
}


def test_the_proto_enum_and_the_reasons_are_the_same_list() -> None:
    prefix = "ERROR_REASON_"
    wire = {name.removeprefix(prefix) for name in ErrorReason.DESCRIPTOR.values_by_name} - {
        "UNSPECIFIED"
    }
    assert wire == {reason.value for reason in Reason}
    assert all(name.startswith(prefix) for name in ErrorReason.DESCRIPTOR.values_by_name)


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_one_code_for_each_door_and_they_agree(reason: Reason) -> None:
    wire = WIRE_CODES[reason]
    exc = WeirError(reason, "what happened")
    assert grpc_code(exc).name == wire.grpc
    assert wire.http in HTTP_OF_GRPC[wire.grpc]
    assert re.fullmatch(r"[a-z_]+", wire.code)
    assert re.fullmatch(r"[A-Z][A-Z_]{1,62}", reason.value)
    status, body, headers = to_http(exc, "req_1")
    assert status == wire.http
    assert body == {
        "error": {
            "message": "what happened",
            "type": wire.type,
            "param": None,
            "code": wire.code,
            "reason": reason.value,
        }
    }
    assert headers["x-request-id"] == "req_1"
    told = from_status(to_status(exc))
    assert told is not None
    assert (type(told), told.reason, told.message) == (WeirError, reason, "what happened")


texts = st.text(max_size=80)
maybe_units = st.none() | st.integers(0, 2**53)
violations = st.builds(
    Violation,
    limit_id=texts,
    limit_type=st.sampled_from(["rps", "concurrency", "tpm", "budget", "context"]),
    resource=texts,
    layer=st.sampled_from(["cluster", "tenant", "user", "api_key", "model"]),
    limit=maybe_units,
    used=maybe_units,
    requested=st.integers(0, 2**53),
    reset_time_ms=st.just(0) | st.integers(1, 253_402_300_799_000),
    knob=texts,
)
retries = st.none() | st.integers(1, 10**8).map(lambda ms: ms / 1_000)


@given(
    reason=st.sampled_from(Reason),
    message=texts,
    given=st.lists(violations, min_size=1, max_size=5),
    retry=retries,
)
def test_a_limit_survives_the_round_trip(
    reason: Reason, message: str, given: list[Violation], retry: float | None
) -> None:
    exc = LimitExceeded(reason, message, given, retry_after_s=retry)
    told = from_status(Status.FromString(to_status(exc).SerializeToString()))
    assert isinstance(told, LimitExceeded)
    assert (told.reason, told.message, told.violations, told.retry_after_s) == (
        reason,
        message,
        tuple(given),
        retry,
    )


@given(
    field=texts,
    value=st.one_of(st.integers(), st.floats(), texts, st.none(), st.text(min_size=200)),
    bound=texts,
)
def test_an_invalid_field_survives_the_round_trip(field: str, value: object, bound: str) -> None:
    exc = InvalidField(field, value, bound)
    told = from_status(to_status(exc))
    assert isinstance(told, InvalidField)
    assert (told.field, told.bound, told.metadata) == (field, bound, exc.metadata)
    assert (told.message, str(told)) == (exc.message, exc.message)


@given(field=st.none() | texts, message=texts, retry=retries, key=texts, value=texts)
def test_any_other_error_survives_the_round_trip(
    field: str | None, message: str, retry: float | None, key: str, value: str
) -> None:
    exc = WeirError(
        Reason.QUEUE_FULL, message, field=field, retry_after_s=retry, metadata={key: value}
    )
    told = from_status(to_status(exc))
    assert told is not None
    assert (told.field, told.message, told.retry_after_s, told.metadata) == (
        field,
        message,
        retry,
        {key: value},
    )


def limit_exceeded(**changes: object) -> LimitExceeded:
    values: dict[str, object] = {
        "limit_id": "tenant:acme/tpm",
        "limit_type": "tpm",
        "resource": "tokens",
        "layer": "tenant",
        "limit": 10_000,
        "used": 9_900,
        "requested": 200,
        "reset_time_ms": 1_767_225_600_250,
        "knob": "raise tokens_per_minute of plan free",
    }
    violation = Violation(**(values | changes))  # type: ignore[arg-type]
    return LimitExceeded(
        Reason.TOKEN_LIMIT_EXCEEDED, "Limit 10000, used 9900", [violation], retry_after_s=0.6
    )


def test_each_detail_type_stands_in_a_status_at_most_once() -> None:
    exc = limit_exceeded()
    exc.field = "messages"
    kinds = [detail.TypeName() for detail in to_status(exc).details]
    assert sorted(kinds) == [
        "google.rpc.BadRequest",
        "google.rpc.ErrorInfo",
        "google.rpc.QuotaFailure",
        "google.rpc.RetryInfo",
        "weir.common.v1.Refusal",
    ]
    quota = error_details_pb2.QuotaFailure()
    [packed] = [d for d in to_status(exc).details if d.Is(quota.DESCRIPTOR)]
    packed.Unpack(quota)
    [violation] = quota.violations
    assert (violation.subject, violation.quota_id, violation.quota_metric) == (
        "tenant",
        "tenant:acme/tpm",
        "tokens",
    )
    assert violation.quota_value == 10_000


def test_the_openai_body_of_a_limit_says_what_to_wait_for() -> None:
    status, body, headers = to_http(limit_exceeded(), "req_7")
    assert status == 429
    assert body["error"] == {
        "message": "Limit 10000, used 9900",
        "type": "tokens",
        "param": None,
        "code": "rate_limit_exceeded",
        "reason": "TOKEN_LIMIT_EXCEEDED",
        "limit_type": "tpm",
        "limit_id": "tenant:acme/tpm",
        "reset_time": "2026-01-01T00:00:00.250Z",
        "limit": 10_000,
        "used": 9_900,
        "requested": 200,
        "unit": "tokens",
        "layer": "tenant",
        "resource": "tokens",
        "knob": "raise tokens_per_minute of plan free",
    }
    assert headers == {
        "x-request-id": "req_7",
        "retry-after": "1",
        "retry-after-ms": "600",
        "x-should-retry": "true",
    }


def test_numbers_of_foreign_layers_and_an_unknown_reset_are_null() -> None:
    error = to_body(limit_exceeded(layer="cluster", limit=None, used=None, reset_time_ms=0))
    assert error["error"]["limit"] is None
    assert error["error"]["used"] is None
    assert error["error"]["reset_time"] is None


def test_of_several_limits_the_one_that_gives_reason_and_message_gives_the_fields() -> None:
    one = limit_exceeded().violations[0]
    later = limit_exceeded(
        limit_type="rps", reset_time_ms=one.reset_time_ms + 1, knob="limit `rps` of plan team"
    ).violations[0]
    told = refused_for_now([one, later], NOW_MS)
    error = to_body(told)["error"]
    assert (told.reason, error["limit_type"]) == (Reason.RATE_LIMIT_EXCEEDED, "rps")
    assert error["knob"] == "limit `rps` of plan team"
    assert told.message.endswith("; to change: limit `rps` of plan team")
    again = from_status(to_status(told))
    assert isinstance(again, LimitExceeded)
    assert again.binding == later


def test_a_refusal_without_an_account_has_no_fields_of_a_limit() -> None:
    exc = LimitExceeded(Reason.RATE_LIMIT_EXCEEDED, "m", [], retry_after_s=1)
    assert "limit_type" not in to_body(exc)["error"]


@pytest.mark.parametrize(
    ("exc", "expected"),
    [
        (WeirError(Reason.BUDGET_EXHAUSTED, "m", retry_after_s=3600), "false"),
        (WeirError(Reason.RATE_LIMIT_EXCEEDED, "m"), "false"),
        (LimitExceeded(Reason.REQUEST_TOO_LARGE, "m", [], retry_after_s=None), "false"),
        (WeirError(Reason.RATE_LIMIT_EXCEEDED, "m", retry_after_s=2.2), "true"),
        (WeirError(Reason.QUEUE_FULL, "m", retry_after_s=0.001), "true"),
        (WeirError(Reason.IDEMPOTENCY_IN_PROGRESS, "m"), None),
        (WeirError(Reason.INTERNAL, "m"), None),
        (InvalidField("n", 0, "1"), None),
    ],
)
def test_sdks_are_told_whether_to_retry(exc: WeirError, expected: str | None) -> None:
    _, _, headers = to_http(exc)
    assert headers.get("x-should-retry") == expected
    assert ("retry-after" in headers) == (expected == "true")
    if expected == "true":
        assert int(headers["retry-after"]) >= 1
        assert int(headers["retry-after-ms"]) >= 1


@given(st.text(max_size=50))
def test_header_values_are_printable_ascii(value: str) -> None:
    safe = header_safe(value)
    assert safe.isascii()
    assert safe.isprintable() or not safe
    assert "\r" not in safe
    assert "\n" not in safe


def test_header_values_keep_what_is_plain_and_encode_the_rest() -> None:
    assert header_safe("req_1 ok~") == "req_1 ok~"
    assert header_safe("a\r\nx: 1") == "a%0D%0Ax: 1"
    assert header_safe("模型") == "%E6%A8%A1%E5%9E%8B"


@given(st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(9999, 12, 31)))
def test_reset_times_are_rfc_3339(moment: datetime) -> None:
    ms = int(moment.replace(tzinfo=UTC).timestamp() * 1_000)
    told = to_body(limit_exceeded(reset_time_ms=ms))["error"]["reset_time"]
    assert isinstance(told, str)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told)
    assert abs(datetime.fromisoformat(told) - moment.replace(tzinfo=UTC)) < timedelta(
        milliseconds=2
    )


def rpc_error(
    code: grpc.StatusCode, details: str = "", trailers: tuple[tuple[str, bytes], ...] = ()
) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, None, grpc.aio.Metadata(*trailers), details)


def test_transport_errors_become_what_the_caller_calls_them_and_leak_no_address() -> None:
    unreachable = rpc_error(
        grpc.StatusCode.UNAVAILABLE, "failed to connect to ipv4:10.0.0.7:50051: refused"
    )
    told = from_rpc_error(
        unreachable, unavailable_as=Reason.LIMITER_UNAVAILABLE, peer="ratelimiter"
    )
    assert told.reason is Reason.LIMITER_UNAVAILABLE
    assert "10.0.0.7" not in told.message
    assert "ratelimiter" in told.message
    for code, reason in (
        (grpc.StatusCode.DEADLINE_EXCEEDED, Reason.DEADLINE_EXCEEDED),
        (grpc.StatusCode.CANCELLED, Reason.CANCELLED),
        (grpc.StatusCode.UNIMPLEMENTED, Reason.NOT_BUILT_YET),
        (grpc.StatusCode.UNKNOWN, Reason.NO_WORKER),
    ):
        assert from_rpc_error(rpc_error(code), unavailable_as=Reason.NO_WORKER).reason is reason


def test_details_that_are_not_ours_or_broken_are_not_believed() -> None:
    foreign = Status(code=5)
    packed = Any()
    packed.Pack(error_details_pb2.ErrorInfo(reason="NOT_FOUND", domain="elsewhere.example"))
    foreign.details.append(packed)
    assert from_status(foreign) is None
    unknown = Status(code=5)
    unknown.details.add().Pack(error_details_pb2.ErrorInfo(reason="NEW", domain=ERROR_DOMAIN))
    assert from_status(unknown) is None
    for blob in (foreign.SerializeToString(), b"\xff\xff\xff", b""):
        error = rpc_error(grpc.StatusCode.UNAVAILABLE, "x", (("grpc-status-details-bin", blob),))
        told = from_rpc_error(error, unavailable_as=Reason.WORKER_LOST)
        assert told.reason is Reason.WORKER_LOST


def test_trailers_carry_the_push_back_of_generic_clients() -> None:
    assert ("grpc-retry-pushback-ms", "600") in to_trailers(limit_exceeded())
    assert ("grpc-retry-pushback-ms", "-1") in to_trailers(WeirError(Reason.BUDGET_EXHAUSTED, "m"))
    tomorrow = WeirError(Reason.BUDGET_EXHAUSTED, "m", retry_after_s=3_600)
    assert ("grpc-retry-pushback-ms", "-1") in to_trailers(tomorrow)
    assert len(to_trailers(WeirError(Reason.QUEUE_FULL, "m"))) == 1


NOW_MS = 1_767_225_600_000


def test_a_refusal_is_told_by_the_limit_that_lasts_longest() -> None:
    tokens = limit_exceeded().violations[0]
    requests = limit_exceeded(
        limit_id="cluster/rps",
        limit_type="rps",
        resource="requests_per_second",
        layer="cluster",
        limit=None,
        used=None,
        requested=1,
        reset_time_ms=NOW_MS + 100,
    ).violations[0]
    told = refused_for_now([tokens, requests], NOW_MS)
    assert told.reason is Reason.TOKEN_LIMIT_EXCEEDED
    assert told.retry_after_s == 0.25
    assert told.message == (
        "tenant:acme/tpm allows 10000 tokens; 9900 are used and 200 requested; "
        "the cluster is at its limit of requests per second (cluster/rps); retry in 0.250 s; "
        "to change: raise tokens_per_minute of plan free"
    )


def test_a_budget_of_money_is_told_as_money_and_counted_in_nanos() -> None:
    budget = limit_exceeded(
        limit_id="tenant:acme/budget_per_month",
        limit_type="budget",
        resource="cost_per_month",
        limit=25_000_000_000,
        used=24_990_000_000,
        requested=10_000_001,
        reset_time_ms=NOW_MS + 86_400_000,
    ).violations[0]
    told = refused_for_now([budget], NOW_MS)
    assert told.reason is Reason.BUDGET_EXHAUSTED
    assert told.message == (
        "tenant:acme/budget_per_month allows 25 cost per month; 24.99 are used and 0.010000001 "
        "requested; the next window begins at 2026-01-02T00:00:00.000Z; "
        "to change: raise tokens_per_minute of plan free"
    )
    error = to_body(told)["error"]
    assert (error["limit"], error["unit"]) == (25_000_000_000, "currency_nanos")
    assert error["reset_time"] == "2026-01-02T00:00:00.000Z"
