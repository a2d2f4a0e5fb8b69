"""Pools of a snapshot in the form of the directory file."""

from google.protobuf.message import Message

from weir.common.v1.subject_pb2 import RequestClass
from weir.directory.v1.directory_pb2 import (
    FairQueue,
    Isolation,
    Pool,
    PromptLength,
    SchedulerPolicy,
    ShedCurve,
    WhenGone,
)
from weir_gateway.directory.sql.entry_form import Form, filled, word

_MILLIS = "_millis"


def pool_form(pool: Pool) -> Form:
    """A pool."""
    request_class = getattr(pool, "class")
    form = filled(
        name=pool.name,
        isolation=word(Isolation.Name(pool.isolation), "ISOLATION_"),
        scheduler_policy=word(SchedulerPolicy.Name(pool.scheduler_policy), "SCHEDULER_POLICY_"),
        policy_parameters=_present(pool.policy_parameters),
        fair_queue=word(FairQueue.Name(pool.fair_queue), "FAIR_QUEUE_"),
        quantum_tokens=pool.quantum_tokens,
        tenant=pool.tenant_id,
        length=word(PromptLength.Name(pool.length), "PROMPT_LENGTH_"),
        profiles=list(pool.profiles),
        shares=filled(
            interactive=pool.interactive_share,
            batch=pool.batch_share,
            short=pool.short_share,
            long=pool.long_share,
        ),
        when_gone=word(WhenGone.Name(pool.when_gone), "WHEN_GONE_"),
        placement=_present(pool.placement),
        scaling=_present(pool.scaling),
    )
    form["class"] = word(RequestClass.Name(request_class), "REQUEST_CLASS_") or None
    shedding = filled(curve=word(ShedCurve.Name(pool.shed_curve), "SHED_CURVE_"))
    if pool.shed_from_millis:
        shedding["from"] = pool.shed_from_millis / 1_000
    form["shedding"] = shedding
    if pool.HasField("preemption"):
        form["preemption"] = _present(pool.preemption)
    return {
        name: value
        for name, value in form.items()
        if name == "preemption" or value not in (None, {}, [])
    }


def _present(message: Message) -> Form:
    """What is set, thousandths as parts of 1."""
    return {
        field.name.removesuffix(_MILLIS): value / 1_000 if field.name.endswith(_MILLIS) else value
        for field, value in message.ListFields()
    }
