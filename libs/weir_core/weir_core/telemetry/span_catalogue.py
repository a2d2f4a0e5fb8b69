"""Every span that is exported, and every attribute: what `docs/traces.md` says of them."""

from dataclasses import dataclass

from weir_core.telemetry import names


@dataclass(frozen=True, slots=True)
class SpanForm:
    """One kind of span.

    Attributes:
        name: as exported; words in braces vary.
        service: who writes it.
        kind: of OpenTelemetry.
        parent: name of its parent in the trace of a request.
        tells: when there is one, and what it covers.
    """

    name: str
    service: str
    kind: str
    parent: str
    tells: str


RPC = "{service}/{method}"
REQUEST = names.span_of_request("{operation}", "{model}")

SPANS = (
    SpanForm(
        REQUEST,
        "gateway",
        "SERVER",
        "the client's, or the RPC's",
        "one request, from its arrival until it is settled; the GenAI conventions' span",
    ),
    SpanForm(
        names.SPAN_REFUSED,
        "gateway",
        "SERVER",
        "the client's, or the RPC's",
        "a call that was refused before it was known what it asks for: its rate, or its form",
    ),
    SpanForm(
        names.SPAN_INTAKE,
        "gateway",
        "INTERNAL",
        REQUEST,
        "reading, checking, rendering and tokenising, until the reservation begins",
    ),
    SpanForm(names.SPAN_RESERVE, "gateway", "CLIENT", REQUEST, "the call that reserves tokens"),
    SpanForm(
        names.SPAN_QUEUE,
        "scheduler",
        "INTERNAL",
        REQUEST,
        "one wait, with an event for each change of what it waits for; one more after each loss",
    ),
    SpanForm(
        names.SPAN_ATTEMPT,
        "gateway",
        "CLIENT",
        REQUEST,
        "one attempt on a worker, as its gateway saw it: also one whose worker was lost",
    ),
    SpanForm(
        names.SPAN_WORKER,
        "worker",
        "SERVER",
        names.SPAN_ATTEMPT,
        "the attempt on its worker; chunks of the prompt and pre-emptions are events",
    ),
    SpanForm(
        names.SPAN_PREFILL,
        "worker",
        "INTERNAL",
        names.SPAN_WORKER,
        "from the first step of the prompt to the last",
    ),
    SpanForm(
        names.SPAN_DECODE,
        "worker",
        "INTERNAL",
        names.SPAN_WORKER,
        "from the first token to the end, all steps in one",
    ),
    SpanForm(
        names.SPAN_EXTEND,
        "gateway",
        "CLIENT",
        REQUEST,
        "a call that extends the reservations of many requests: in the trace of one of those "
        "that are recorded, with links to the others",
    ),
    SpanForm(
        names.SPAN_SETTLE, "gateway", "CLIENT", REQUEST, "the call that charges, or gives back"
    ),
    SpanForm(
        names.SPAN_SETTLE_LATE,
        "gateway",
        "CLIENT",
        names.SPAN_SETTLE,
        "the same call once more, since the ratelimiter had not heard it; one for each time",
    ),
    SpanForm(
        names.SPAN_JOB_SUBMIT,
        "gateway",
        "SERVER",
        "the client's, or the RPC's",
        "a job or a response in the background was taken; its attempts are traces of their own "
        "that link here",
    ),
    SpanForm(
        names.SPAN_BATCH_CREATE,
        "gateway",
        "SERVER",
        "the client's",
        "a batch was taken; the attempts of its lines link here",
    ),
    SpanForm(
        RPC,
        "every service",
        "SERVER",
        "the caller's",
        "a gRPC call that is no stream of many requests, such as "
        "`weir.ratelimiter.v1.RateLimiterService/Reserve`",
    ),
)

_SECONDS = "seconds"
ATTRIBUTES: dict[str, str] = {
    names.GEN_AI_OPERATION: "`chat`, `text_completion` or `embeddings`",
    names.GEN_AI_PROVIDER: "`tokenweir`",
    names.GEN_AI_REQUEST_MODEL: "as resolved from what was asked for",
    names.GEN_AI_REQUEST_MAX_TOKENS: "of each answer",
    names.GEN_AI_REQUEST_TEMPERATURE: "defaults filled in, as are the next",
    names.GEN_AI_REQUEST_TOP_P: "",
    names.GEN_AI_REQUEST_TOP_K: "",
    names.GEN_AI_REQUEST_SEED: "where one was sent",
    names.GEN_AI_REQUEST_FREQUENCY_PENALTY: "where one was sent",
    names.GEN_AI_REQUEST_PRESENCE_PENALTY: "where one was sent",
    names.GEN_AI_REQUEST_CHOICES: "answers, where there are several",
    names.GEN_AI_REQUEST_STREAM: "whether the answer is read as it is made",
    names.GEN_AI_OUTPUT_TYPE: "`text`, or `json` where the form of the output is bound",
    names.GEN_AI_RESPONSE_ID: "id of the request",
    names.GEN_AI_RESPONSE_MODEL: "what answered",
    names.GEN_AI_RESPONSE_FINISH_REASONS: "of each answer: `stop`, `length`, `abort` ...",
    names.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: f"{_SECONDS}, of streams",
    names.GEN_AI_USAGE_INPUT_TOKENS: "prompt tokens; on `intake` as counted",
    names.GEN_AI_USAGE_OUTPUT_TOKENS: "tokens of all answers",
    names.GEN_AI_USAGE_CACHE_READ_TOKENS: "prompt tokens that were not computed",
    names.GEN_AI_CONVERSATION_ID: "id of the session; never what the client calls its conversation",
    names.LATENCY_TIME_IN_QUEUE: f"{_SECONDS}, in the worker; vLLM's name",
    names.LATENCY_TIME_IN_PREFILL: f"{_SECONDS}; vLLM's name",
    names.LATENCY_TIME_IN_DECODE: f"{_SECONDS}; vLLM's name",
    names.LATENCY_TIME_TO_FIRST_TOKEN: f"{_SECONDS}, from the arrival at whoever writes the span",
    names.LATENCY_E2E: f"{_SECONDS}, of the whole request; vLLM's name",
    names.RPC_SYSTEM: "`grpc`",
    names.RPC_SERVICE: "",
    names.RPC_METHOD: "",
    names.RPC_GRPC_STATUS_CODE: "number of the status",
    names.ERROR_TYPE: "reason of the error, or the name of a type; on every span that failed",
    names.SERVER_ADDRESS: "of the worker, on the last attempt",
    names.SERVER_PORT: "likewise",
    names.REQUEST_ID: "what the client was told as `x-request-id`",
    names.TENANT_ID: "also in the resource of every span of a tenant",
    names.USER_ID: "",
    names.API_KEY_ID: "the id of the key, never its secret",
    names.REQUEST_CLASS: "`interactive` or `batch`",
    names.PRIORITY: "as it was taken",
    names.JOB_ID: "",
    names.BATCH_ID: "",
    names.ATTEMPT: "number of the attempt, or of how many there were",
    names.WORKER_ID: "",
    names.MODEL_VERSION: "that answered",
    names.RESERVATION_ID: "",
    names.OUTCOME: "how a request, or a wait, ended",
    names.REASON: "why: a reason of an error, or what a wait is for",
    names.LIMIT_IDS: "limits that refused; ids alone, never their numbers",
    names.LIMIT_LAYERS: "the layer of each of them",
    names.DEGRADATIONS: "what was changed instead of refusing",
    names.EXTENSIONS: "reservations in one call",
    names.TOKENS: "of an event: reserved, extended to, cached or made",
    names.TOKENS_RESERVED: "prompt and output together",
    names.QUEUE_REASON: "what a wait that failed was last for",
    names.QUEUE_POSITION: "",
    names.STEPS: "steps that an event stands for",
    names.STEP_TOKENS: "computed in them, or lost",
    names.STEP_SECONDS: f"{_SECONDS} that they took",
}
