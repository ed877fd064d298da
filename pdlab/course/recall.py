"""Notebook 10's retrieval questions: which ideas an answer in the learner's own words must hold.

An answer is free text.  It is read for a few ideas, each with many wordings, and for the known
wrong turns.  This finds out whether an idea is *named*; whether it is understood is the learner's
to judge, with the model answer beside their own, once they have answered.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

from pdlab.course.finding import Finding


@dataclass(frozen=True, slots=True)
class Idea:
    """``words``: patterns of which one must be found.  ``nudge``: what to think of, not the answer."""

    nudge: str
    words: tuple[str, ...]

    def named_in(self, text: str) -> bool:
        return any(re.search(pattern, text) for pattern in self.words)


@dataclass(frozen=True, slots=True)
class WrongTurn:
    """A claim that undoes an answer, whatever else it holds; ``unless`` is what defuses it."""

    kind: str
    says: str
    words: tuple[str, ...]
    unless: str = r"\b(not|no|never|nor|isn t|doesn t|don t|won t|cannot|can t|without|rather than|instead of|myth|wrong)\b"

    def taken_in(self, text: str) -> bool:
        clauses = re.split(r"[.;:!?\n]|,|\bbut\b|\bwhile\b|\balthough\b|\bbecause\b|\bsince\b", text)
        return any(re.search(w, c) and not re.search(self.unless, c) for c in clauses for w in self.words)


@dataclass(frozen=True, slots=True)
class Question:
    """One question, its ideas, its wrong turns, and an answer to compare with afterwards."""

    ask: str
    ideas: tuple[Idea, ...]
    wrong: tuple[WrongTurn, ...]
    model_answer: str
    source: str = ""


def plain(text: str) -> str:
    """Lower case, apostrophes and hyphens as spaces, one space between words."""
    text = re.sub(r"['’`\-–_/]", " ", text.lower())
    return re.sub(r"[ \t]+", " ", text)


def score(question_id: str, answer: object) -> Finding:
    """Read ``answer`` for the ideas of question ``question_id``.  A wrong turn counts first."""
    question = QUESTIONS[question_id]
    if not isinstance(answer, str):
        return Finding(False, "not-text", "answer in a sentence or two, as a string")
    if len(answer.split()) < 4:
        return Finding(False, "too-short", "a word or two can be a guess; write a sentence")
    text = plain(answer)
    found = [idea.named_in(text) for idea in question.ideas]
    for turn in question.wrong:
        if turn.taken_in(text):
            return Finding(False, turn.kind, turn.says)
    for idea, there in zip(question.ideas, found, strict=True):
        if not there:
            return Finding(False, "idea-missing", f"{sum(found)} of {len(found)} ideas are there. Think of {idea.nudge}")
    return Finding(True)


_FASTER = r"(?:rais|increas|improv|boost|maximi[sz]|gain|higher|more|better|doubl)\w*(?: the| overall| total| raw| a| of| its| our)* (?:throughput|requests per second|tokens per second)|throughput (?:goes up|rises|increases|improves|is higher)"

QUESTIONS = {
    "10.1": Question(
        "What is vLLM's disaggregated prefilling for, by its own documentation?",
        (
            Idea(
                "which two latencies it lets you set one without the other",
                (
                    r"ttft.*\b(itl|tpot|inter token|time per output)|\b(itl|tpot|inter token).*(ttft|time to first)",
                    r"(first token|prefill) latency.*(token latency|decode latency|between tokens)",
                    r"time to first token.*(between|inter|per output)",
                    r"(separate|independent)\w* (tun|control|set|scal)\w*.*(prefill.*decode|phase|latenc)",
                    r"(tun|control|set)\w* .*(prefill and decode|two phases|both phases|each phase|phases?) (separate|independent|apart|on (its|their) own)",
                ),
            ),
            Idea(
                "which end of the distribution of token gaps it controls",
                (r"\btail\b", r"\bp ?9[059]\b", r"worst (case )?(itl|gap|token)", r"(spike|stall|long gap|jitter|outlier)", r"interfer\w+", r"(long|large) prefills? (from )?(stall|stop|block|disturb|delay|interrupt)\w*"),
            ),
        ),
        (
            WrongTurn("for-throughput", "the documentation says the opposite about throughput; read notebook 04 again", (_FASTER, r"(for|more|about) throughput")),
        ),
        "To tune TTFT and ITL apart from each other, and to keep the tail of ITL under control. The "
        "documentation calls it experimental and says that it does not improve throughput.",
        "vLLM docs, Disaggregated Prefilling",
    ),
    "10.2": Question(
        "Why is a link's peak bandwidth not enough to predict a hand-off?",
        (
            Idea(
                "what an application really gets, as against the data sheet",
                (r"effective", r"sustained", r"payload", r"achiev\w+", r"actual\w*", r"real(ly|istic)?\b", r"application (gets|sees)", r"goodput", r"in practice", r"(never|not|rarely|seldom) (reach|get|attain|see|deliver)\w*"),
            ),
            Idea(
                "one cause of the difference, or one cost that no bandwidth holds",
                (
                    r"set ?up", r"message size", r"(small|short) (message|transfer|block)s?", r"protocol", r"overhead", r"conten\w+", r"shar(ed|ing)", r"congest\w+",
                    r"topolog\w+", r"regist\w+", r"synchron\w+", r"latency per", r"fixed cost", r"start ?up", r"queue?ing", r"queues?", r"buffers?", r"handshake", r"numa", r"pcie", r"hops?\b",
                ),
            ),
        ),
        (
            WrongTurn("peak-is-enough", "this takes the data sheet at its word; measure once and compare", (r"peak (bandwidth )?is (enough|sufficient|fine|what (we|you) get)",)),
        ),
        "An application gets the sustained payload rate, which is below the peak: topology, message "
        "size, protocol, contention, memory registration and synchronisation take their share. And "
        "setup comes on top, which no bandwidth holds.",
    ),
    "10.3": Question(
        "Where does prefix locality act in the routing of a disaggregated request, and where normally not?",
        (
            Idea(
                "the choice for which a cached prefix saves work",
                (
                    r"prefill (worker|server|pool|instance|node|replica|side|stage|router|routing|choice|selection|engine|pod)s?", r"(choos|pick|select|rout)\w* (of |a |the |to )*prefill", r"(on|at|in|for|to) (the )?prefill\b",
                ),
            ),
            Idea(
                "what the other choice goes by",
                (
                    r"decode.*\b(load|running|batch|busy|queue|memory|capacity|free|occupan\w+|utili[sz]ation|slots?|not|no|doesn t|ignore\w*|without|normally|isn t|never|irrelevant)\b",
                    r"\b(not|no|never|doesn t|isn t|without|normally|ignore\w*)\b.*decode",
                    r"\b(load|running|batch|free memory)\b.*decode",
                ),
            ),
        ),
        (
            WrongTurn("decode-chases-prefixes", "decode gets its blocks over the wire in any case; what would a prefix hit save it?", (r"decode (worker|server|pool|instance|is|gets)?.{0,30}(chosen|picked|selected|routed)?.{0,20}\b(by|on|for|with|to) (the )?(longest |best |most )?(prefix|cache hit|overlap|locality)",), r"\b(not|no|never|normally|isn t|doesn t|without|rather than|instead|unlike|load)\b"),
        ),
        "In choosing the prefill worker: a prefix that is cached there is prefill that need not be "
        "computed. Decode is chosen by load; its blocks arrive over the wire either way.",
        "NVIDIA Dynamo docs, router guide",
    ),
    "10.4": Question(
        "What does layer-wise transfer hide, and what does it leave?",
        (
            Idea(
                "which two things happen at the same time",
                (
                    r"(behind|under|while|during|overlap\w*|concurrent\w*|parallel|same time|alongside|as) .*(prefill|comput\w+|later layers?|next layers?|remaining layers?|other layers?|following layers?|subsequent layers?|forward pass)",
                    r"(prefill|comput\w+|later layers?|next layers?|remaining layers?).*(overlap\w*|hid(es|ing|den)|concurrent\w*|parallel|same time|meanwhile)",
                ),
            ),
            Idea(
                "what is still left to send at the end, or for which prompts it does not pay",
                (
                    r"(last|final) layer", r"short (prompt|one|input|request)s?", r"small (prompt|input)s?", r"not (all|everything|the whole|every)", r"(only|just) (a )?(part|some|partly)", r"\bpart of\b", r"\bpartly\b", r"\bsome of\b", r"the rest", r"remain(s|der|ing (part|transfer|bytes))", r"set ?up",
                    r"\b512\b", r"fall\w* back", r"serial", r"(still|leaves?|left)\b.*(layer|transfer|bytes|set ?up|sync\w*|tail|end|overhead|hand ?off)", r"overhead", r"synchron\w+", r"(longer|slower) than",
                ),
            ),
        ),
        (
            WrongTurn("hides-everything", "something is left when the last layer is done; what?", (r"\b(hides?|hiding|hidden|removes?|eliminates?)\b.{0,25}\b(all|everything|entire|whole|completely|fully)\b", r"(makes|made) (the )?transfer free", r"no cost (at all|remains|left)")),
        ),
        "It sends each finished layer while later layers are still in prefill, so part of the transfer "
        "hides behind computing. The last layer, the setup and the synchronisation are left; for short "
        "prompts the fine-grained sending costs more than it saves, and Splitwise sends them serially.",
        "Patel et al., Splitwise, ISCA 2024",
    ),
    "10.5": Question(
        "Why does raw throughput not choose a deployment?",
        (
            Idea(
                "what a request must meet before it counts",
                (r"\bslos?\b", r"\bslas?\b", r"targets?", r"latenc\w+", r"\bttft\b", r"\bt?itl\b", r"\btpot\b", r"deadlines?", r"goodput", r"attain\w*", r"too (late|slow)", r"within (its|the|their) (limit|bound|budget)s?"),
            ),
            Idea(
                "the yardstick that takes its place",
                (r"goodput", r"capacity", r"\bper gpu\b", r"per (accelerator|core|dollar|euro)", r"(requests|rate|load).{0,40}(meet|within|while|that (still )?(meet|attain))", r"equal (budget|gpus?|resources)", r"same (budget|gpus?|resources|hardware)", r"(useful|good|compliant) (requests?|work|rate)", r"(meet|meets|meeting|attain\w*|satisf\w+|within)\b.{0,40}\b(slo|sla|target|limit|deadline)"),
            ),
        ),
        (
            WrongTurn("throughput-decides", "a system can be at its highest throughput while every user waits", (r"(highest|most|higher|more|best) throughput (wins|is (best|better)|decides|should)",)),
        ),
        "Tokens that come too late count in throughput and help nobody. What chooses is goodput: the "
        "highest offered rate, per GPU at an equal budget, at which the share of requests meeting TTFT "
        "and TPOT is still high enough.",
    ),
    "10.6": Question(
        "Why does the short prompt of notebook 09 stay where it is, for now?",
        (
            Idea(
                "the two amounts that the path trades",
                (
                    r"(hand ?off|transfer|floor|10\.8\d*|8\.8\d*|moving).*(interfer\w+|2 ?ms|sav(es|ed|ing)|more than|exceed\w*|outweigh\w*|than it|bigger|larger|gain)",
                    r"(interfer\w+|2 ?ms|sav(es|ed|ing)).*(hand ?off|transfer|floor|10\.8\d*|8\.8\d*)", r"(costs?|adds?) (at least )?(more|8\.8)\w*",
                ),
            ),
            Idea(
                "what nobody has shown yet",
                (
                    r"evidence", r"(not|never|nobody|no one|un) ?(has |have |been |yet )*(shown|proven|measured|tested|swept|demonstrated)", r"unproven|unmeasured|unknown|inconclusive", r"no (sweep|measurement|proof|end to end)", r"without (a |an |any )?(sweep|measur\w+|proof|end to end)",
                    r"until (a |an |the |we |it |someone )*(end to end|sweep|measur\w+|bench\w+|show\w*)", r"(need|needs|lack|lacks|missing|await\w*)\b.*(sweep|measure\w*|benchmark|end to end|data)",
                ),
            ),
        ),
        (
            WrongTurn(
                "claims-violation", "nobody measured that; the baseline has room to spare",
                (r"\b(violat\w+|breach\w*|exceed\w*|break\w*|miss(es)?|bust\w*)\b.{0,30}\b(slo|itl|target|p ?95|50 ?ms|sla)", r"\b(slo|itl|target|p ?95|sla)\b.{0,25}\b(violat\w+|breach\w*|exceed\w*|is missed|broken|busted)"),
                r"\b(not|no|never|nobody|isn t|doesn t|don t|cannot|can t|without|whether|may|might|could|until|unproven|unknown|evidence)\b",
            ),
        ),
        "Sending it away costs the affected path at least 8.83 ms more than the interference it saves, "
        "and no end-to-end sweep has shown a gain that pays for it. That is insufficient evidence to "
        "adopt. It is no proof that the ITL target would be missed.",
    ),
}

# What the registry's checkers name: one question each.
purpose, peak, locality, layerwise, yardstick, short_prompt = (partial(score, name) for name in QUESTIONS)
