"""Small hypothetical runs for the tests of measure."""

from __future__ import annotations

from pdlab.measure import records

MS = 1_000_000


def answer(seq, *, sent_ms=None, ttft_ms=50, gap_ms=10, tokens=8, status="ok", **more):
    """One request's row: ``tokens`` frames of one token, ``gap_ms`` apart."""
    sent = round((100 * seq if sent_ms is None else sent_ms) * MS)
    row = {"request_id": f"r{seq}", "seq": seq, "scheduled_ns": sent, "sent_ns": sent, "status": status,
           "prompt_tokens": 100, "requested_output_tokens": 8, "stamp_source": "simulated"}  # fmt: skip
    if status == "ok":
        frames = [sent + round((ttft_ms + k * gap_ms) * MS) for k in range(tokens)]
        row |= {"frame_ns": frames, "frame_tokens": [1] * tokens, "output_tokens": tokens, "end_ns": frames[-1] if frames else sent}
    else:
        row |= {"end_ns": sent + MS, "error": status}
    return row | more


def run(rows, name="run", **known):
    """A run of ``rows`` with a complete provenance."""
    document = records.provenance(label="hypothetical", source="tests", **known)
    return records.Run(records.table_from_rows(rows), document, name)


def cohort(offered=100, failed=5, slow=5):
    """The course's cohort: of 100 requests 5 fail, and 5 that succeed miss a target."""
    rows = [answer(i) for i in range(offered - failed - slow)]
    rows += [answer(i, ttft_ms=5000) for i in range(len(rows), offered - failed)]
    return run(rows + [answer(i, status="failed") for i in range(offered - failed, offered)])
