"""Lines of output and error files, in OpenAI's form."""

import json

from weir_core.errors import WIRE_CODES, Reason, WeirError
from weir_core.errors.openai import to_body
from weir_gateway.jobs.job import Job, JobState

_NOT_RUN = {
    JobState.EXPIRED: (
        "batch_expired",
        "This request could not be executed before the completion window expired.",
    ),
    JobState.CANCELLED: (
        "batch_cancelled",
        "This request was not executed, or not to its end, before the batch was cancelled.",
    ),
}


def succeeded(job: Job) -> bool:
    """Whether a line goes into the output file, else into the error file."""
    return job.state is JobState.SUCCEEDED


def output_line(job: Job) -> bytes:
    """The line of a job that has ended, with its newline."""
    head = _head(job)
    if succeeded(job):
        return head + _response(job, 200, job.result) + b',"error":null}\n'
    not_run = _NOT_RUN.get(job.state)
    if not_run is not None:
        error = {"code": not_run[0], "message": not_run[1]}
        return head + b'"response":null,"error":' + json.dumps(error).encode() + b"}\n"
    failure = _failure(job)
    body = json.dumps(to_body(failure)).encode()
    return head + _response(job, failure.wire.http, body) + b',"error":null}\n'


def _head(job: Job) -> bytes:
    line_id = f"batch_req_{job.id.removeprefix('job_')}"
    return f'{{"id":"{line_id}","custom_id":{json.dumps(job.custom_id)},'.encode()


def _response(job: Job, status: int, body: bytes) -> bytes:
    head = f'"response":{{"status_code":{status},"request_id":{json.dumps(job.request_id)},"body":'
    return head.encode() + body + b"}"


def _failure(job: Job) -> WeirError:
    known = job.error_reason in WIRE_CODES
    reason = Reason(job.error_reason) if known else Reason.INTERNAL
    return WeirError(reason, job.error_message or "the request failed")
