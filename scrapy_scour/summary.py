"""The one plain text that a crawl ends with: what it got, what it was refused and why. Makes the text, logs nothing."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from scrapy_scour import stats
from scrapy_scour.outcomes import Outcomes
from scrapy_scour.pace_words import delay
from scrapy_scour.policy.failures import FailureCategory
from scrapy_scour.stats import Counter
from scrapy_scour.stores.host_marks import HostMark

#: How each category reads in "12 <words>".
WORDS: Mapping[FailureCategory, str] = {
    FailureCategory.ROBOTS_DISALLOWED: "refused by robots.txt",
    FailureCategory.ROBOTS_UNREACHABLE: "not asked for, since robots.txt could not be read",
    FailureCategory.OUT_OF_SCOPE: "out of scope",
    FailureCategory.REDIRECT_REFUSED: "ended at a redirect that cannot be followed",
    FailureCategory.REDIRECT_LOOP: "ended in a redirect loop",
    FailureCategory.TOO_MANY_REDIRECTS: "ended after too many redirects",
    FailureCategory.REQUEST_LIMIT: "over the request limit of their host",
    FailureCategory.CRAWL_DELAY_TOO_LONG: "skipped, since their host asks for too long a delay",
    FailureCategory.RATE_LIMITED: "refused for rate by their host",
    FailureCategory.ACCESS_BLOCKED: "blocked (403, 451)",
    FailureCategory.AUTHENTICATION: "needing a login (401, 407)",
    FailureCategory.NOT_FOUND: "not found",
    FailureCategory.SERVER_ERROR: "ended in a server error",
    FailureCategory.TIMEOUT: "timed out",
    FailureCategory.DNS: "of hosts whose name is not known",
    FailureCategory.CONNECTION: "without a connection",
    FailureCategory.TLS: "without a trusted connection (TLS)",
    FailureCategory.BODY_TOO_LARGE: "with too large a body",
    FailureCategory.INVALID_RESPONSE: "with an answer that is no page",
    FailureCategory.DUPLICATE: "requested before",
    FailureCategory.OTHER: "ended otherwise",
}
_HOSTS_SHOWN = 3


def summary(count: Counter, outcomes: Outcomes) -> str:
    """What a person wants to know at the end, one fact a line; one line when there is nothing but pages."""
    ended = int(count.get(stats.OUTCOMES))
    lines = [f"{_number(int(count.get(stats.PAGES)), 'page')}, {_number(ended, 'request')} without a page."]
    counts = {category: int(count.get(stats.OUTCOME, category.value)) for category in FailureCategory}
    for category, number in sorted(counts.items(), key=lambda item: -item[1]):
        if number:
            shown = outcomes.examples.get(category, ())
            lines.append(f"  {number} {WORDS[category]}{', such as' if number > len(shown) else ''}:")
            lines += _examples(shown)
            if category is FailureCategory.ROBOTS_DISALLOWED and shown:
                # The site chose this text, and it is there to be pasted into a shell.
                lines.append(f"    (to see the rules that apply: scrapy robots {shlex.quote(shown[0][0])})")
    for mark, words in (
        (outcomes.hosts.closed, "closed by robots.txt: every URL that was asked for is refused"),
        (outcomes.unreachable, "without a robots.txt that could be read"),
        (outcomes.limited, "cut short by SCOUR_MAX_REQUESTS_PER_DOMAIN"),
    ):
        lines += _hosts(mark, words)
    given_up = int(count.get(stats.HOSTS_GIVEN_UP))
    if given_up:
        lines.append(f"  {_number(given_up, 'host')} given up, since refusing for rate went on.")
    if outcomes.slowest is not None:
        seconds, clock = outcomes.slowest
        asked_by = f", as {clock.asked_by} asks" if clock.asked_by else ""
        lines.append(f"  The slowest pace: {clock.host}, {delay(seconds, exact=True)} between requests{asked_by}.")
    return "\n".join(lines)


def _examples(examples: Sequence[tuple[str, str]]) -> list[str]:
    return [f"    {url} ({reason})" if reason else f"    {url}" for url, reason in examples]


def _hosts(mark: HostMark, words: str) -> list[str]:
    if not mark:
        return []
    shown = ", ".join(mark.examples(_HOSTS_SHOWN))
    more = ", ..." if len(mark) > _HOSTS_SHOWN else ""
    at_least = "at least " if mark.full else ""
    return [f"  {at_least}{_number(len(mark), 'host')} {words} ({shown}{more})."]


def _number(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
