"""Reasons are grouped whatever host they are about, the most frequent are kept, and nothing is lost from the sums."""

from __future__ import annotations

import pytest

from scrapy_scour.stores.refusals import (
    KEPT_REASONS,
    LONGEST_TEXT,
    MOST_EXAMPLES,
    MOST_REASONS,
    Refusals,
    without_hosts,
)


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        (
            "robots.txt of http://h1.test:80 could not be read: status 503",
            "robots.txt of … could not be read: status 503",
        ),
        (
            "'h1.test' is not in allowed_domains (scope: allowed_domains)",
            "'…' is not in allowed_domains (scope: allowed_domains)",
        ),
        ("h1.test has had its 3 requests", "… has had its 3 requests"),
        ("no results for hostname lookup: H1.test.", "no results for hostname lookup: …."),
        ("Connection to h1.test:8080 refused", "Connection to … refused"),
        ("the hop (from https://h2.test/a?b) is no URL", "the hop (from …) is no URL"),
        ("sub.h1.test and h1.testing are others", "sub.h1.test and h1.testing are others"),
        ("robots.txt line 2 (Disallow: /h) refuses it for bot", "robots.txt line 2 (Disallow: /h) refuses it for bot"),
    ],
)
def test_a_reason_says_the_same_of_every_host(text: str, grouped: str) -> None:
    assert without_hosts(text, ("h1.test",)) == grouped


def test_reasons_and_examples_are_bounded_and_the_others_counted() -> None:
    refusals = Refusals()
    for n in range(10_000):
        refusals.add("other", f"reason {n % 500}" + "x" * 1_000, f"http://a.test/{n}" + "y" * 1_000)
    assert sum(map(len, refusals._reasons.values())) <= KEPT_REASONS
    ((category, number, reasons, others),) = refusals.groups()
    assert (category, number) == ("other", 10_000)
    assert len(reasons) == MOST_REASONS
    assert sum(reason.count for _, reason in reasons) + others.count == 10_000
    assert all(len(reason.examples) <= MOST_EXAMPLES for _, reason in reasons)
    assert len(others.examples) == MOST_EXAMPLES
    assert all(len(text) <= LONGEST_TEXT for text, _ in reasons)
    assert all(len(url) <= LONGEST_TEXT + 4 for _, reason in reasons for url in reason.examples)


def test_the_most_frequent_reasons_are_shown_whenever_they_came() -> None:
    """Not the first ones: many that were met once say nothing of the one that came a hundred times, even if late."""
    refusals = Refusals()
    for n in range(1_000):
        refusals.add("dns", f"rare {n}", f"http://rare{n}.test/")
    for n in range(100):
        refusals.add("dns", "frequent", f"http://frequent.test/{n}")
        refusals.add("dns", f"rare {1_000 + n}", "http://rare.test/")
    refusals.add("tls", "one", "https://one.test/")
    groups = list(refusals.groups())
    assert [(category, number) for category, number, _, _ in groups] == [("dns", 1_200), ("tls", 1)]
    text, reason = groups[0][2][0]
    assert (text, reason.count) == ("frequent", 100)
    assert reason.examples == [f"http://frequent.test/{n}" for n in range(MOST_EXAMPLES)]
    assert groups[1][3].count == 0
