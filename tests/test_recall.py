"""Retrieval questions: paraphrases that hold the ideas pass, answers without them are told what to think of."""

import pytest

from pdlab.course.recall import QUESTIONS, score

RIGHT = {
    "10.1": [
        "To tune TTFT and ITL separately and to control tail ITL.",
        "It lets me set the time to first token apart from the inter-token latency, and keeps P99 gaps in check. It does not raise throughput.",
        "Tuning prefill and decode independently; long prefills no longer stall running decodes.",
        "Separate control of TTFT and TPOT, without interference spikes.",
        "TTFT and ITL become separate knobs, and tail latency of tokens is bounded. Not for throughput!",
    ],
    "10.2": [
        "An application only gets the effective payload rate, and setup comes on top.",
        "Because in practice contention and message size keep you below it.",
        "You never reach the peak: protocol overhead, registration, synchronisation.",
        "The real sustained rate depends on topology and sharing of the link.",
        "Peak ignores setup time, and small messages achieve far less.",
    ],
    "10.3": [
        "In the choice of the prefill worker; decode is picked by load.",
        "Prefix overlap matters when selecting a prefill server. It does not matter for decode.",
        "At prefill routing. The decode worker normally ignores it, since blocks come over the wire.",
        "Choosing prefill: cached blocks need no computing. For decode one looks at running requests.",
        "It acts on the prefill side, never on decode.",
    ],
    "10.4": [
        "Transfer of early layers hides behind the prefill of later layers; the last layer is still exposed.",
        "Sending a layer overlaps with computing the next layers. Short prompts go serially.",
        "It hides part of the transfer while prefill is still running; setup remains.",
        "While later layers compute, earlier ones are sent, but not everything is hidden.",
        "KV of finished layers moves during the remaining prefill. What is left is the final layer and synchronisation.",
    ],
    "10.5": [
        "Because requests must meet their latency targets; goodput per GPU is the yardstick.",
        "Throughput counts tokens that arrive too late. Capacity within the SLO is what matters.",
        "A deployment is chosen by the highest rate that still meets TTFT and TPOT at an equal budget.",
        "Users feel latency. Compare SLO-compliant capacity on the same GPUs.",
        "It says nothing about SLO attainment, so use goodput instead.",
    ],
    "10.6": [
        "The hand-off costs at least 8.83 ms more than the interference it saves, and there is no evidence from a sweep.",
        "Moving it takes 10.83 ms to save 2 ms of interference, and nobody measured a gain end to end.",
        "The transfer floor is larger than the interference avoided; until a sweep shows otherwise it stays.",
        "Insufficient evidence: the floor is bigger than the 2 ms saved. This does not show that ITL violates the target.",
        "It saves 2 ms and the hand-off adds more; unproven that this pays off.",
    ],
}

WRONG = {
    "10.1": [
        ("To increase throughput and tune TTFT and tail ITL.", "for-throughput"),
        ("It improves overall throughput of the server.", "for-throughput"),
        ("To make the model run on two machines.", "idea-missing"),
        ("It controls the tail of the token gaps.", "idea-missing"),
        ("throughput", "too-short"),
        (42, "not-text"),
    ],
    "10.2": [
        ("Because the link has a lower number than that.", "idea-missing"),
        ("The peak is enough if setup is added.", "peak-is-enough"),
        ("Effective bandwidth is what matters here.", "idea-missing"),
        ("Gigabits are not gigabytes, divide by eight.", "idea-missing"),
        ("dunno", "too-short"),
    ],
    "10.3": [
        ("Decode is chosen by the longest prefix, prefill by load.", "decode-chases-prefixes"),
        ("In the cache of the server somewhere.", "idea-missing"),
        ("On the prefill worker that has it.", "idea-missing"),
        ("It is a property of the tokenizer.", "idea-missing"),
        ("", "too-short"),
    ],
    "10.4": [
        ("It hides the whole transfer behind the prefill of later layers, last layer included.", "hides-everything"),
        ("It eliminates the hand-off completely, since layers overlap with computing.", "hides-everything"),
        ("It hides the layers of the model from the router.", "idea-missing"),
        ("Transfers overlap with prefill computing.", "idea-missing"),
        ("The last layer is left.", "idea-missing"),
    ],
    "10.5": [
        ("The system with the highest throughput wins, at equal latency.", "throughput-decides"),
        ("Because throughput is hard to measure.", "idea-missing"),
        ("Because the cluster is expensive to run.", "idea-missing"),
        ("Latency matters to users as well.", "idea-missing"),
        (None, "not-text"),
    ],
    "10.6": [
        ("The hand-off is longer than the 2 ms of interference, no sweep was run, and P95 ITL exceeds 50 ms.", "claims-violation"),
        ("It violates the ITL target, says the evidence.", "claims-violation"),
        ("Because short prompts are short.", "idea-missing"),
        ("Nobody measured it end to end so far.", "idea-missing"),
        ("The hand-off floor is more than the interference.", "idea-missing"),
    ],
}


def test_every_question_has_its_cases():
    """Six questions, each with at least five right paraphrases and five wrong answers."""
    assert set(QUESTIONS) == set(RIGHT) == set(WRONG)
    assert len(QUESTIONS) == 6
    assert all(len(cases) >= 5 for cases in (*RIGHT.values(), *WRONG.values()))


@pytest.mark.parametrize(("question", "answer"), [(q, a) for q, answers in RIGHT.items() for a in answers])
def test_paraphrases_pass(question, answer):
    """An answer in other words that holds the ideas is accepted."""
    result = score(question, answer)
    assert result.ok, (result.kind, result.says)


@pytest.mark.parametrize(("question", "answer", "kind"), [(q, a, k) for q, cases in WRONG.items() for a, k in cases])
def test_wrong_answers_are_named(question, answer, kind):
    """An answer without an idea, or with a wrong turn, is told which kind it is."""
    result = score(question, answer)
    assert (result.ok, result.kind) == (False, kind), result.says


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_model_answer_passes_and_the_question_alone_does_not(question):
    """Our own answer holds its ideas; repeating the question is no answer."""
    assert score(question, QUESTIONS[question].model_answer).ok
    assert not score(question, QUESTIONS[question].ask).ok
