"""Retrieval: nobody's own words are marked, ours stand beside an attempt, and the cases are right in one way only."""

from __future__ import annotations

import re

import nbformat
import pytest

from pdlab.course import checks, exercises
from pdlab.course.compare import Rules
from pdlab.course.exercises import Exercise
from pdlab.course.recall import QUESTIONS, beside, missing, own_words
from pdlab.course.source import sources
from pdlab.errors import BadInput

ROOT = exercises.folder().parents[1]
CASES = [f"10.{number}" for number in QUESTIONS]
VERDICT = re.compile(r"not yet|correct\b|\bwrong|\bpoints?\b|10\.\d")

RIGHT = {
    1: [
        "To tune TTFT and ITL separately and to control tail ITL.",
        "Tuning prefill and decode independently; long prefills no longer stall running decodes.",
        "TTFT and ITL become separate knobs, and tail latency of tokens is bounded. Not for throughput!",
        "two separate knobs: one for how fast the first token comes, one for how smooth the stream is, especially in the tail",
    ],
    2: [
        "Because in practice contention and message size keep you below it.",
        "Peak ignores setup time, and small messages achieve far less.",
        "Peak is the data sheet rate. What arrives is less: protocol, small messages; setup time is separate",
    ],
    3: [
        "In the choice of the prefill worker; decode is picked by load.",
        "It acts on the prefill side, never on decode.",
        "At prefill routing. The decode worker normally ignores it, since blocks come over the wire.",
    ],
    4: [
        "Layer-wise transfer hides all but the last layer, and costs synchronisation in each",
        "It hides all but the last layer behind prefill; it leaves the last layer, setup and per-layer synchronisation.",
        "Sending a layer overlaps with computing the next layers. Short prompts go serially.",
    ],
    5: [
        "Throughput counts tokens that arrive too late. Capacity within the SLO is what matters.",
        "It says nothing about SLO attainment, so use goodput instead.",
    ],
    6: [
        "The hand-off costs at least 8.83 ms more than the interference it saves, and there is no evidence from a sweep.",
        "It saves 2 ms and the hand-off adds more; unproven that this pays off.",
    ],
}  # fmt: skip
REVERSED = {
    1: [
        "It makes tail ITL worse and ties TTFT and ITL together.",
        "Throughput gets better, tail ITL gets worse, and TTFT and ITL are tied.",
        "It improves throughput of the same GPUs, and is no experiment.",
    ],
    2: ["Peak is always sustained, queueing never matters.", "The effective rate never lies below the peak, setup is nothing."],
    3: [
        "On the decode side, not the prefill side.",
        "Decode is chosen by prefix, the prefill worker by load.",
        "Not in choosing the prefill worker, but for decode.",
    ],
    4: ["It hides the last layer and leaves all the others to wait for.", "Nothing remains: setup and the last layer overlap with prefill."],
    5: ["Because goodput ignores latency.", "Because meeting the SLO matters less than tokens per GPU."],
    6: [
        "There is plenty of evidence that the hand-off costs more than the interference saved.",
        "The interference it saves is more than the hand-off, and a sweep has shown it.",
    ],
}  # fmt: skip


def recaps() -> list[str]:
    """The recap sentences of notebooks 01 to 09, as they stand there."""
    found = []
    for source in sources(ROOT):
        if source.number.isdigit() and 1 <= int(source.number) <= 9:
            recap = re.search(r"## Recap\n(.+?)(?=\n(?:# )?\n?(?:# )?Your guess)", source.path.read_text(encoding="utf-8"), re.S)
            assert recap, source.name
            found += re.findall(r"^(?:# )?\d\. (.+)$", recap[1], re.M)
    return found


def shown(capsys: pytest.CaptureFixture[str], number: int, words: object) -> str:
    beside({number: words})
    return " ".join(capsys.readouterr().out.split())


def outcome(exercise_id: str, answer: object) -> str:
    return checks.evaluate(exercise_id, answer).outcome


@pytest.mark.parametrize("number", QUESTIONS)
def test_an_attempt_sees_ours_and_no_verdict(capsys, number):
    """Right, reversed, a recap or ours itself: the words stand beside ours, and nothing is said for or against them."""
    theirs = [*RIGHT[number], *REVERSED[number], QUESTIONS[number].ours, *recaps()]
    assert len(theirs) > 45
    after = f" ours {QUESTIONS[number].ours} look for {'; '.join(QUESTIONS[number].look_for)}. turned round? {QUESTIONS[number].turned}"
    assert not VERDICT.search(after)
    for words in theirs:
        own_words(number, words)
        assert capsys.readouterr().out == f"{number} read, and not marked. Ours stands beside it after the six cases.\n"
        assert shown(capsys, number, words) == f"{number} · {QUESTIONS[number].ask} yours {' '.join(words.split())}{after}"


@pytest.mark.parametrize("number", QUESTIONS)
def test_ours_waits_for_an_attempt(capsys, number):
    """Nothing, or a thing that is no answer: ours stays away, and what is missing is told without a verdict."""
    for words in (..., None, "", "   ", [], print, object()):
        own_words(number, words)
        assert "not marked" not in (told := capsys.readouterr().out) and not VERDICT.search(told), words
        page = shown(capsys, number, words)
        assert QUESTIONS[number].ours[:40] not in page and QUESTIONS[number].look_for[0] not in page, words
        assert page.endswith("and run its cell and this one again") and not VERDICT.search(page), words


SHORT = ("?", "setup", "I don't know", "keine Ahnung", "Nobody measured it.", "因为传输需要时间", "転送には時間がかかるから", 42, ["two", "parts"], "yes " * 30)


@pytest.mark.parametrize("number", QUESTIONS)
def test_a_short_or_a_wrong_attempt_sees_ours(capsys, number):
    """A word, another language, no idea at all: whoever has written something gets ours and what to look for."""
    for words in SHORT:
        own_words(number, words)
        assert "not marked" in capsys.readouterr().out, words
        assert QUESTIONS[number].ours in (page := shown(capsys, number, words)) and "turned round?" in page, words


@pytest.mark.parametrize("number", QUESTIONS)
def test_the_question_said_again_is_no_attempt(number):
    """The question alone, however it is spelled, is asked for again; with a word more it is an attempt."""
    ask = QUESTIONS[number].ask
    assert missing(QUESTIONS[number], ask) and missing(QUESTIONS[number], f"  {ask.upper().rstrip('?')} ")
    assert not missing(QUESTIONS[number], f"{ask} Nobody knows.") and not missing(QUESTIONS[number], QUESTIONS[number].ours)


def test_long_and_marked_up_words_are_shown_as_text(capsys, monkeypatch):
    """What a learner wrote is cut at a thousand characters and never becomes HTML."""
    pages = []
    monkeypatch.setattr("pdlab.course.feedback.publish", lambda text, page: pages.append(page))
    beside({3: "<script>alert('no')</script> & a few more words " + "x" * 5_000})
    assert "&lt;script&gt;" in pages[0] and "<script>" not in pages[0] and "x" * 1_001 not in pages[0]
    for show in (lambda: beside({7: "words"}), lambda: own_words("1", "words")):
        with pytest.raises(BadInput, match="a number from 1 to 6"):
            show()


@pytest.mark.parametrize("exercise_id", CASES)
def test_no_sentence_earns_a_point(exercise_id):
    """Free text, right or reversed, in place of the answer or in each of its entries, is not yet right."""
    number = int(exercise_id.removeprefix("10."))
    for words in (*RIGHT[number], *REVERSED[number], QUESTIONS[number].ours):
        entries = dict.fromkeys(exercises.find(exercise_id).expected, words)
        assert {outcome(exercise_id, words), outcome(exercise_id, [words]), outcome(exercise_id, entries)} == {"not yet"}, words


def entries(exercise: Exercise) -> dict[str, list[object]]:
    """For each entry of an answer, what may be said in its place: every choice, or for a number another one."""
    rules, found = Rules.of(exercise), {}
    for name, right in exercise.expected.items():
        choices = rules.at(name).choices
        found[name] = [c for c in choices if c != right] if isinstance(right, str) else [right * 2, right / 2, right + 0.1, 0]
        assert found[name], (exercise.id, name)
    return found


@pytest.mark.parametrize("exercise_id", CASES)
def test_a_case_is_right_in_one_way_only(exercise_id):
    """Each entry alone turned to anything else, an entry left out, and the same word throughout are all refused."""
    exercise = exercises.find(exercise_id)
    right, others = exercise.expected, entries(exercise)
    assert outcome(exercise_id, right) == "correct"
    wrong = [right | {name: other} for name, some in others.items() for other in some]
    wrong += [{k: v for k, v in right.items() if k != name} for name in right]
    wrong += [dict.fromkeys(right, word) for word in {w for some in others.values() for w in some}]
    assert len(wrong) >= 12 and {outcome(exercise_id, answer) for answer in wrong} == {"not yet"}
    ways = 1
    for some in others.values():
        ways *= len(some) + 1
    assert ways >= 80, "one guess in eighty at most"


# What someone answers who holds the reverse of the idea, throughout.
BELIEVES = {
    "it raises throughput": ("10.1", {"b": "says it", "a": "says neither"}, "for-throughput"),
    "it is a finished feature": ("10.1", {"d": "says it"}, "experimental"),
    "two latencies are tied": ("10.1", {"a": "says the opposite"}, "latencies-tied"),
    "the tail gets worse": ("10.1", {"e": "says the opposite"}, "tail-spoiled"),
    "peak is what one gets": ("10.2", {"b": "P", "d": "R"}, "data-sheet-believed"),
    "setup never matters": ("10.2", {"a": "P", "b": "P"}, "setup-left-out"),
    "decode by prefix, prefill by load": ("10.3", {"A prefill": "p1", "A decode": "d0", "B decode": "d2"}, "decode-chases-prefixes"),
    "prefill by load": ("10.3", {"A prefill": "p1"}, "prefill-by-load"),
    "prefill by prefix alone": ("10.3", {"A prefill": "p2", "B prefill": "p2"}, "queue-ignored"),
    "everything hides": ("10.4", {"b": "same", "d": "same"}, "hides-everything"),
    "nothing hides": ("10.4", {"c": "more", "a": "more"}, "hides-nothing"),
    "setup hides": ("10.4", {"e": "same"}, "setup-hidden"),
    "throughput decides": ("10.5", {"A": 3, "B": 2.25, "C": 1.875, "choose": "A"}, "throughput-decides"),
    "the largest number decides": ("10.5", {"A": 8, "B": 16, "C": 24, "choose": "C"}, "total-not-per-gpu"),
    "a floor is evidence enough against": ("10.6", {"f": "reject"}, "rejects-outright"),
    "a floor is evidence enough for": ("10.6", {"a": "adopt"}, "floor-lets-in"),
    "a floor is part of a percentile": ("10.6", {"d": "adopt"}, "floor-as-percentile"),
    "the opponent need not be tuned": ("10.6", {"c": "adopt"}, "untuned-baseline"),
    "no evidence is ever enough": ("10.6", {"b": "not yet", "e": "not yet"}, "evidence-not-taken"),
}  # fmt: skip


@pytest.mark.parametrize("belief", BELIEVES)
def test_who_believes_the_reverse_is_told_why(belief):
    """The answers that follow from the reverse of an idea are refused, and the reason names that idea."""
    exercise_id, wrong, kind = BELIEVES[belief]
    result = checks.evaluate(exercise_id, exercises.find(exercise_id).expected | wrong)
    assert (result.outcome, result.kind) == ("not yet", kind), result.text
    assert len(result.says.split()) > 5


def test_points_and_the_proof_come_from_the_cases():
    """Seven exercises of two points; none has a checker that reads sentences, and the completion line rests on 10.1's case."""
    mine = [e for e in exercises.registry().values() if e.notebook == "10"]
    assert [(e.id, e.points, e.checker) for e in mine] == [(f"10.{n}", 2, None) for n in range(1, 8)]
    answer = exercises.find("10.1").expected
    assert answer["b"] == answer["d"] == "says the opposite"


def test_the_page_asks_first_and_shows_ours_last():
    """All six questions stand above the first case, ours below the last, and the learner's copy holds no sentence of ours."""
    book = nbformat.read(next(s for s in sources(ROOT) if s.number == "10").learner, as_version=4)
    texts = [cell.source for cell in book.cells]
    asked = [next(i for i, text in enumerate(texts) if text.startswith(f"# {n}  {QUESTIONS[n].ask}\n")) for n in QUESTIONS]
    cases = [texts.index(next(t for t in texts if t.startswith(f"# Exercise {name}\n"))) for name in CASES]
    compared = next(i for i, text in enumerate(texts) if "beside(" in text)
    assert max(asked) < min(cases) and max(cases) < compared
    whole = everything_on(book)
    for question in QUESTIONS.values():
        assert not any(sentence in whole for sentence in re.split(r"(?<=[.:;]) ", question.ours)), question.ask
        assert not any(part in whole for part in question.look_for if len(part.split()) > 3)


def everything_on(book: nbformat.NotebookNode) -> str:
    """Everything that the learner's copy shows, sources and outputs, on one line."""
    parts = [cell.source for cell in book.cells]
    parts += [str(o.get("data", o.get("text", ""))) for cell in book.cells for o in cell.get("outputs", [])]
    return " ".join(re.sub(r"\\n|#", " ", " ".join(parts)).split())


def test_an_untouched_page_is_told_to_answer_first(capsys):
    """Beside ours, with nothing written, each of the six questions asks for an answer."""
    beside(dict.fromkeys(QUESTIONS, ...))
    assert capsys.readouterr().out.count("no answer yet") == len(QUESTIONS)
