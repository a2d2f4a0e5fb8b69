"""`weir jobs`: offline work of the tenant whose key is used."""

from typing import Annotated, Any

import grpc
import typer

from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.gateway.v1.inference_service_pb2 import ChatInput, ChatMessage, GenerateRequest
from weir.gateway.v1.job_service_pb2 import (
    CancelJobRequest,
    GetJobRequest,
    Job,
    JobState,
    ListJobsRequest,
    SubmitJobRequest,
    WatchJobRequest,
)
from weir.gateway.v1.job_service_pb2_grpc import JobServiceStub
from weir_cli.caller_door import DEFAULT_URL, Ca, Key, Metadata, Url, as_caller, call_once, list_all
from weir_cli.directory_text import Form, Format, Printed, print_forms
from weir_cli.errors import CommandError

app = typer.Typer(help="Work that is done later: submit now, read then.", no_args_is_help=True)

_COLUMNS = ("id", "state", "model", "created", "ended", "tokens", "error")
_STATES = {name.removeprefix("JOB_STATE_").lower(): name for name in JobState.keys()[1:]}

Id = Annotated[str, typer.Argument(help="Id of a job.", metavar="ID")]


@app.command()
def submit(
    model: Annotated[str, typer.Argument(help="Name or alias of a model.")],
    text: Annotated[str, typer.Argument(help="What the user says.")],
    system: Annotated[str, typer.Option(help="System message.")] = "",
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, tokens.")] = 512,
    webhook_url: Annotated[str, typer.Option(help="https URL to call when it ends.")] = "",
    idempotency_key: Annotated[
        str, typer.Option(help="The same key and request again: the same job.")
    ] = "",
    output: Printed = Format.TABLE,
    url: Url = DEFAULT_URL,
    key: Key = "",
    ca: Ca = None,
) -> None:
    """Accept a job and print its id."""
    turns = [ChatMessage(role="system", content=system)] if system else []
    turns.append(ChatMessage(role="user", content=text))
    request = SubmitJobRequest(
        request=GenerateRequest(
            model=model, chat=ChatInput(messages=turns), max_new_tokens=max_new_tokens
        ),
        webhook_url=webhook_url,
        idempotency_key=idempotency_key,
    )
    answer = call_once(url, key, ca, lambda channel: _stub(channel).SubmitJob, request)
    print_forms(_form(answer.job), output, _COLUMNS)


@app.command()
def get(
    job_id: Id,
    output: Printed = Format.TABLE,
    url: Url = DEFAULT_URL,
    key: Key = "",
    ca: Ca = None,
) -> None:
    """Show one job; its text with `-o json` or `-o yaml`."""
    request = GetJobRequest(job_id=job_id)
    answer = call_once(url, key, ca, lambda channel: _stub(channel).GetJob, request)
    print_forms(_form(answer.job), output, _COLUMNS)


@app.command()
def watch(
    job_id: Id,
    output: Printed = Format.TABLE,
    url: Url = DEFAULT_URL,
    key: Key = "",
    ca: Ca = None,
) -> None:
    """Print a job at each change until it has ended; fail unless it succeeded.

    Ctrl-C leaves it alone.
    """
    request = WatchJobRequest(job_id=job_id)

    async def ask(channel: grpc.aio.Channel, metadata: Metadata) -> Job | None:
        last = None
        async for response in _stub(channel).WatchJob(request, metadata=metadata):
            if response.job != last:
                last = response.job
                print_forms(_form(last), output, _COLUMNS)
        return last

    ended = as_caller(url, key, ca, ask)
    if ended is None or ended.state != JobState.JOB_STATE_SUCCEEDED:
        raise typer.Exit(1)


@app.command()
def cancel(
    job_id: Id,
    output: Printed = Format.TABLE,
    url: Url = DEFAULT_URL,
    key: Key = "",
    ca: Ca = None,
) -> None:
    """Cancel a job; what ran is charged."""
    request = CancelJobRequest(job_id=job_id)
    answer = call_once(url, key, ca, lambda channel: _stub(channel).CancelJob, request)
    print_forms(_form(answer.job), output, _COLUMNS)


@app.command("list")
def list_jobs(
    state: Annotated[str, typer.Option(help=f"Only these: {', '.join(_STATES)}.")] = "",
    output: Printed = Format.TABLE,
    url: Url = DEFAULT_URL,
    key: Key = "",
    ca: Ca = None,
) -> None:
    """List jobs, the newest first."""
    if state and state not in _STATES:
        raise CommandError(f"--state is {state!r}; it must be one of {', '.join(_STATES)}")
    number = JobState.Value(_STATES[state]) if state else JobState.JOB_STATE_UNSPECIFIED

    request = ListJobsRequest(state=number)
    found = list_all(url, key, ca, lambda channel: _stub(channel).ListJobs, request, "jobs")
    print_forms([_form(one) for one in found], output, _COLUMNS)


def _stub(channel: grpc.aio.Channel) -> Any:
    return JobServiceStub(channel)


def _form(job: Job) -> Form:
    error = ErrorReason.Name(job.error_reason).removeprefix("ERROR_REASON_")
    return {
        "id": job.job_id,
        "state": JobState.Name(job.state).removeprefix("JOB_STATE_").lower(),
        "model": job.model,
        "created": job.create_time.ToJsonString(),
        "started": job.start_time.ToJsonString() if job.HasField("start_time") else "",
        "ended": job.end_time.ToJsonString() if job.HasField("end_time") else "",
        "deadline": job.deadline.ToJsonString(),
        "expires": job.expire_time.ToJsonString() if job.HasField("expire_time") else "",
        "request_id": job.request_id,
        "attempts": job.attempts,
        "tokens": job.usage.total_tokens,
        "error": error if job.error_reason else "",
        "message": job.error_message,
        "text": job.text,
    }
