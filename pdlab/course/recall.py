"""Notebook 10's retrieval questions: the learner's own words, and ours beside them.

No program can tell whether a sentence is right, so none judges these: the learner does, once there is
an attempt to compare.  What earns points are the cases of exercises 10.1 to 10.6, one to a question.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import fill

from pdlab.course import answers, feedback
from pdlab.course.reading import spelled
from pdlab.errors import BadInput

MOST_SHOWN = 1_000  # characters of an attempt


@dataclass(frozen=True, slots=True)
class Question:
    """``look_for``: what to find in one's own answer.  ``turned``: for those who wrote the reverse, why it isn't so."""

    ask: str
    ours: str
    look_for: tuple[str, ...]
    turned: str


QUESTIONS = {
    1: Question(
        "What is vLLM's disaggregated prefilling for, by its own documentation?",
        "To tune TTFT and ITL apart from each other, and to keep the tail of ITL under control. The "
        "documentation calls it experimental and says that it does not improve throughput.",
        ("two latencies, each set without the other", "the tail of ITL", "not throughput"),
        "If yours promises more throughput, or ties the two latencies together: the same work is done on the same "
        "GPUs, with a transfer besides. What is gained is that each phase has settings of its own.",
    ),
    2: Question(
        "Why is a link's peak bandwidth not enough to predict a hand-off?",
        "An application gets the sustained payload rate, which is below the peak: topology, message size, protocol, "
        "contention, memory registration and synchronisation take their share. And setup comes on top, which no "
        "bandwidth holds.",
        ("what arrives is less than the data sheet's rate", "one cause of that", "setup, apart"),
        "If yours says that the peak is what one gets: it bounds the rate from above, and only a measurement says how far below.",
    ),
    3: Question(
        "Where does prefix locality act in the routing of a disaggregated request, and where normally not?",
        "In choosing the prefill worker: a prefix that is cached there is prefill that need not be computed. Decode "
        "is chosen by load; its blocks arrive over the wire either way.",
        ("the choice of the prefill worker", "computing that a hit saves", "decode goes by load"),
        "If yours has the two the other way round: ask what a hit would save. Decode computes no prompt.",
    ),
    4: Question(
        "What does layer-wise transfer hide, and what does it leave?",
        "It sends each finished layer while later layers are still in prefill, so all but the last layer hides "
        "behind computing. The last layer, the setup and the synchronisation in each layer are left; for short "
        "prompts that costs more than it saves, and Splitwise sends them serially.",
        ("sending behind the prefill of later layers", "the last layer, setup or synchronisation", "short prompts"),
        "If yours hides the whole transfer: the last layer can leave only when prefill is done, and then nothing is left to hide it behind.",
    ),
    5: Question(
        "Why does raw throughput not choose a deployment?",
        "Tokens that come too late count in throughput and help nobody. What chooses is goodput: the highest offered "
        "rate, per GPU at an equal budget, at which enough of the requests still meet TTFT and TPOT.",
        ("latency targets that a request must meet", "goodput, or capacity within targets", "per GPU, at an equal budget"),
        "If yours says that goodput ignores latency, or that the highest throughput wins: a server finishes the most when "
        "its queue is never empty, and then everybody waits. Goodput counts only those who did not wait too long.",
    ),
    6: Question(
        "Why does the short prompt of notebook 09 stay where it is, for now?",
        "Sending it away costs the affected path at least 8.83 ms more than the interference it saves (hypothetical), "
        "and no end-to-end sweep has shown a gain that pays for it. That is insufficient evidence to adopt. It is no "
        "proof that the ITL target would be missed.",
        ("a hand-off larger than what it saves", "no sweep yet", "no claim about the target"),
        "If yours says that the evidence is plenty, or that a target is missed: what there is, is one request's floor. Nobody has measured the tail.",
    ),
}  # fmt: skip


def missing(question: Question, words: object) -> str:
    """What keeps ``words`` from being an attempt; empty where they are one, however short, right or wrong."""
    if answers.is_nothing(words):
        return "no answer yet: put yours in place of the `...`, as a text in quotes"
    if isinstance(words, answers.Other):
        return "write it as a text in quotes"
    if _words(spelled(words)) == _words(question.ask):
        return "that is the question; put your own answer there"
    return ""


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def own_words(number: int, words: object) -> None:
    """Say whether ``words`` are an attempt at a question, and nothing about what they say.  Raises BadInput."""
    says = missing(_question(number), answers.read(words)) or "read, and not marked. Ours stands beside it after the six cases."
    feedback.publish(f"{number} {says}", feedback.panel(f"<strong>{number}</strong> {feedback.marked(says)}"))


def beside(mine: Mapping[int, object]) -> None:
    """Show each question with the learner's words, and ours beside them once there is an attempt.

    ``mine`` maps the number of a question to its answer.  Raises BadInput for a number that is none.
    """
    texts, pages = [], []
    for number, words in mine.items():
        question = _question(number)
        head, lines = f"{number} · {question.ask}", _compared(question, answers.read(words))
        texts.append("\n".join([fill(head, 90), *(_line(name, text) for name, text in lines)]))
        rows = "".join(f'<div style="margin-top: 0.3em"><em>{name}</em> {feedback.marked(text)}</div>' for name, text in lines)
        pages.append(feedback.panel(f"<strong>{html.escape(head)}</strong>{rows}"))
    feedback.publish("\n\n".join(texts), "".join(pages))


def _question(number: int) -> Question:
    if number not in QUESTIONS:
        raise BadInput(f"question {number!r}", f"a number from 1 to {max(QUESTIONS)}", "own_words or beside")
    return QUESTIONS[number]


def _compared(question: Question, words: object) -> list[tuple[str, str]]:
    if lacking := missing(question, words):
        return [("yours", f"{lacking}, and run its cell and this one again")]
    text = " ".join(spelled(words).split())
    return [
        ("yours", text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"),
        ("ours", question.ours),
        ("look for", "; ".join(question.look_for) + "."),
        ("turned round?", question.turned),
    ]


def _line(name: str, text: str) -> str:
    return fill(f"{name:>13}  {text}", 90, subsequent_indent=" " * 15)
