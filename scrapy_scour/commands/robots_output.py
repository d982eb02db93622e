"""Where the answers of ``scrapy robots`` go: standard output, one after the other, and the exit status."""

from __future__ import annotations

import json
import os
import re
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, TextIO

from scrapy_scour.commands.robots_answer import STATUS, Answer, Explainer
from scrapy_scour.commands.robots_plan import BadInput, Plan
from scrapy_scour.commands.robots_text import TextReport

if TYPE_CHECKING:
    from scrapy_scour.job import Job


_SURROGATE = re.compile("[\ud800-\udfff]")


class OutputGone(Exception):
    """Nobody reads what is printed any more."""


class Desk:
    """Takes URLs, writes answers to ``out``, keeps the exit status of the run."""

    def __init__(self, asked: Plan, out: TextIO) -> None:
        self._asked = asked
        self._out = out
        self._worst = 0
        self._answers = 0
        self.finished = False
        self.explainer: Explainer
        self._text: TextReport

    def open(self, job: Job) -> None:
        """Begin to answer for a crawl."""
        asked = self._asked
        self.explainer = Explainer(job, agent=asked.agent, file=asked.file, all_agents=asked.all_agents)
        self._text = TextReport(self._write, self.explainer.identity, self.explainer.sent, self.explainer.notes)
        if isinstance(self._out, TextIOWrapper):
            self._out.reconfigure(errors="backslashreplace")

    def write(self, answer: Answer) -> None:
        """Write one answer; raises OutputGone."""
        self._answers += 1
        self._worst = max(self._worst, STATUS[answer.verdict])
        if self._asked.as_json:
            self._write(_json(answer.as_json(self.explainer.identity, self.explainer.notes)) + "\n")
        else:
            self._text.add(answer)

    def done(self) -> None:
        """All URLs were answered."""
        if not self._answers:
            raise BadInput("no URL came on standard input")
        self.finished = True

    def status(self) -> int:
        """The exit status: a run that did not come to its end cannot tell."""
        return self._worst if self.finished else STATUS["unknown"]

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except BrokenPipeError:
            raise OutputGone from None
        except (OSError, ValueError) as error:
            self.forget()
            raise BadInput(f"standard output: {getattr(error, 'strerror', None) or error}") from error

    def forget(self) -> None:
        """Nobody reads any more: what is left in the buffer must not fail when Python ends."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._out.fileno())


def _json(value: dict[str, Any]) -> str:
    """The value as JSON in ASCII; octets that are no UTF-8 become U+FFFD, since half a surrogate pair is no text."""
    text = json.dumps(value)
    if "\\ud" not in text:
        return text
    return json.dumps(json.loads(_SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False))))
