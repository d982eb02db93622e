"""The report's page shows what it was given, lets nothing from outside become markup, and stays small."""

from __future__ import annotations

import re
import sys

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from lxml import html
from parsel import Selector

from scrapy_scour.report_page import MOST_SHOWN, ReportData, page, plot, seconds
from scrapy_scour.stores.histories import Histories
from scrapy_scour.stores.refusals import Refusals

HOSTILE = (
    "</td></tr></table><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "</title></style><script src=//evil.test/x.js></script>",
    "<!--",
    "]]><![CDATA[",
    "{{ 7 * 7 }}{% for x in y %}{# comment",
    "javascript:alert(1)",
    "&lt;script&gt;&#x3c;b&#x3e;",
    "\x00\x1b[31m\u202egnp.exe\u2066\u0085",
    "\ud800 lone",
    "a" * 5_000,
)


def report(text: str, hosts: int = 1) -> ReportData:
    """Every place of the page that takes text from outside takes this one."""
    histories, refusals = Histories(), Refusals()
    for n in range(hosts):
        host = f"{text}{n}"
        for at in range(4):
            histories.sent(host, float(at), 1.0 if at else None, 0.5, text)
        histories.refused(host, "other")
        histories.held(host, 1.0, 2.0)
        histories.hold(host, text)
        histories.of(host).given_up = text
    refusals.add("other", text, text)
    return ReportData(
        spider=text,
        began="then",
        ended="now",
        duration_s=4.0,
        finish_reason=text,
        pages=0,
        outcomes=hosts,
        hosts=histories.hosts,
        rest=histories.rest,
        refusals=refusals,
        words={"other": text},
    )


def structure(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Every element of a page with the names of its attributes."""
    # A parser for the page as bytes, like a browser's: what UTF-8 cannot hold is an escape in the file.
    tree = html.document_fromstring(text.encode("utf-8", "backslashreplace"))
    return [(str(element.tag), tuple(sorted(element.attrib))) for element in tree.iter()]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_changes_no_element_and_no_attribute_of_the_page(text: str) -> None:
    made = page(report(text))
    assert structure(made) == structure(page(report("harmless")))
    assert "49" not in re.findall(r"<title>(.*?)</title>", made)[0]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", made)


@settings(max_examples=50)
@given(st.text(min_size=1))
def test_no_text_at_all_changes_an_element(text: str) -> None:
    assert structure(page(report(text))) == structure(page(report("harmless")))


def test_the_page_needs_nothing_but_itself_and_lets_nothing_in() -> None:
    tree = html.document_fromstring(page(report("http://evil.test/x.js", hosts=3)))
    assert {element.tag for element in tree.iter()}.isdisjoint(
        {"script", "link", "img", "iframe", "object", "embed", "form", "base", "audio", "video", "use", "image"}
    )
    targets = [value for element in tree.iter() for name in ("href", "src", "action") if (value := element.get(name))]
    assert targets == ["#refused"]
    policy = tree.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")[0]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
    style = tree.xpath("//style/text()")[0]
    assert "url(" not in style
    assert "@import" not in style
    assert "prefers-color-scheme: dark" in style
    assert tree.xpath("//meta[@name='viewport']/@content") == ["width=device-width, initial-scale=1"]


def numbers(row: Selector, name: str) -> str:
    return " ".join(row.css(f'td[data-is="{name}"] ::text').getall()).strip()


def test_ten_thousand_hosts_are_the_worst_and_one_row_for_the_sums_of_the_others() -> None:
    histories, refusals = Histories(), Refusals()
    for n in range(10_000):
        host = f"host-{n}.test"
        for at in range(n % 5 + 1):
            histories.sent(host, float(at), 1.0 if at else None, 0.0, "")
        histories.of(host).pages += 3
        for _ in range(n % 3):
            histories.refused(host, "not_found")
            refusals.add("not_found", "status 404", f"http://{host}/x")
    histories.sent("worst.test", 9.0, 0.1, 5.0, "robots.txt line 2")
    histories.sent("held.test", 1.0, None, 0.0, "")
    histories.hold("held.test", "retry_after")
    histories.refused("never.test", "dns")
    refused = sum(n % 3 for n in range(10_000))
    requests = sum(n % 5 + 1 for n in range(10_000)) + 2
    data = ReportData("big", "", "", 10.0, "finished", 30_000, refused, histories.hosts, histories.rest, refusals)
    made = page(data)
    rows = Selector(made).css("table.hosts tbody tr")
    assert len(made) < 1_000_000
    assert len(rows) == MOST_SHOWN + 1
    assert [row.css("th.host bdi::text").get() for row in rows[:2]] == ["worst.test", "held.test"]
    assert numbers(rows[0], "smallest gap") == "0.10 s 1 too short"
    last = rows[-1]
    assert (last.css("th.host::text").get() or "").strip() == f"{10_003 - MOST_SHOWN:,} other hosts"
    for name, total in (("pages", 30_000), ("requests", requests)):
        found = [int((numbers(row, name) or "0").replace(",", "")) for row in rows]
        assert sum(found) == total
    tiles = dict(
        zip(
            [" ".join(one.css("dt ::text").getall()) for one in Selector(made).css(".tiles div")],
            Selector(made).css(".tiles dd::text").getall(),
            strict=True,
        )
    )
    assert tiles["hosts asked"] == "10,002"
    assert tiles["requests sent"] == f"{requests:,}"
    assert tiles["gaps below the asked delay"] == "1"


def test_links_that_lead_out_take_no_host_from_the_table() -> None:
    """However many they are and however often they are met: the hosts that were asked are what the page is about."""
    histories = Histories(most_hosts=100)
    histories.sent("real.test", 0.0, None, 0.0, "")
    for n in range(5_000):
        histories.refused(f"off{n}.test", "out_of_scope")
        histories.refused(f"off{n}.test", "out_of_scope")
    for n in range(300):
        histories.refused(f"gone{n}.test", "other")  # ended before anything was asked of it
    histories.refused("real.test", "out_of_scope")
    data = ReportData(
        "", "", "", 1.0, "", 0, 0, histories.hosts, histories.rest, Refusals(), elsewhere=histories.elsewhere
    )
    made = Selector(page(data, most_shown=3))
    rows = made.css("table.hosts tbody tr")
    assert rows[0].css("th.host bdi::text").get() == "real.test"
    assert numbers(rows[0], "without a page") == "1 out_of_scope"
    assert made.css("#elsewhere::text").getall() == [
        "Not in the table: 10,000 requests out of scope, for hosts that had been asked for nothing."
    ]
    assert made.xpath("//dt[.='hosts asked']/following-sibling::dd/text()").get() == "1"


def test_it_can_be_heard_as_well_as_seen() -> None:
    """Hosts head their rows, and the parts of a table stay such where a narrow screen shows them as blocks."""
    made = Selector(page(report("a.test")))
    roles = {"table": "table", "thead": "rowgroup", "tbody": "rowgroup", "tr": "row", "td": "cell"}
    for tag, role in roles.items():
        assert {element.attrib.get("role") for element in made.css(f"table {tag}, table:is({tag})")} <= {role}, tag
    assert {(cell.attrib["role"], cell.attrib["scope"]) for cell in made.css("table.hosts th")} == {
        ("columnheader", "col"),
        ("rowheader", "row"),
    }
    assert made.css("table.hosts svg::attr(aria-label)").getall() == [
        "4 requests, gaps up to 1.00 s, 0.50 s asked, left alone 1 time"
    ]


def test_it_says_what_it_cannot_count_and_which_requests_have_no_dot() -> None:
    said = " ".join(" ".join(Selector(page(report("a.test"))).css("footer p::text, p.key::text").getall()).split())
    assert "counts are exact, but for one thing that nothing here sees: when a kept connection breaks" in said
    assert "a dot is a request after the first" in said


def test_a_crawl_that_asked_for_nothing_has_a_page_too() -> None:
    made = page(ReportData("none", "", "", 0.0, "", 0, 0, [], Histories().rest, Refusals()))
    assert "No host was asked for anything." in made
    assert "None: every request became a page." in made


def test_a_dot_is_as_high_as_the_gap_and_the_asked_delay_is_a_line() -> None:
    histories = Histories()
    for at, gap in ((0.0, None), (2.0, 2.0), (4.0, 2.0), (10.0, 40.0), (11.0, 1.0)):
        histories.sent("a.test", at, gap, 2.0, "line")
    drawn = plot(histories.of("a.test"), 12.0)
    assert drawn is not None
    assert drawn.asked_y is not None
    heights = [float(y) for y in re.findall(r"M[\d.]+ ([\d.]+)h0", drawn.kept)]
    assert heights[:2] == [drawn.asked_y, drawn.asked_y]
    assert heights[2] == 6.0  # longer than is drawn: at the upper edge
    assert (drawn.top_s, drawn.longest_s) == (8.0, 40.0)
    short = [float(y) for y in re.findall(r"M[\d.]+ ([\d.]+)h0", drawn.short)]
    assert len(short) == 1
    assert short[0] > drawn.asked_y
    across = [float(x) for x in re.findall(r"M([\d.]+) ", drawn.kept)]
    assert across == sorted(across)
    assert across[-1] < 300
    alone = Histories()
    alone.sent("b.test", 0.0, None, 2.0, "line")
    assert plot(alone.of("b.test"), 12.0) is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "\u2013"),
        (0.0, "0 s"),
        (0.0004, "< 1 ms"),
        (0.0331, "33 ms"),
        (0.25, "0.25 s"),
        (12.345, "12.3 s"),
        (1234.5, "1,234 s"),
        (604_800.0, "604,800 s"),
        (9_999_999.0, "9,999,999 s"),
        (1e7, "115 days 18 h"),
        (sys.float_info.max, "more than 100 years"),
    ],
)
def test_seconds_read_well(value: float | None, words: str) -> None:
    assert seconds(value) == words
