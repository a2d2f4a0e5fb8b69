"""Ends rotations: the older secret of a key goes when its time is over."""

from dataclasses import replace

from weir_gateway.directory.sql.records import Draft


def end_overlaps(draft: Draft, now_ms: int) -> None:
    """Takes the older secret of every key whose overlap ended by `now_ms`."""
    for record in draft.before.overlapping():
        end_ms = record.overlap_end_ms
        if end_ms is not None and end_ms <= now_ms:
            body = record.body | {"hashes": record.body["hashes"][:1]}
            draft.put(replace(record, body=body, overlap_end_ms=None), "end_overlap")
