"""The expectations and real files that lie beside the project, read in place; skipped where they are not."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from scrapy_scour.policy.agents import product_token
from scrapy_scour.policy.robots import Robots, parse
from scrapy_scour.robotstxt import RFC9309RobotParser

SHARED = Path(__file__).resolve().parents[3] / "shared"
VECTORS = SHARED / "vectors" / "robots.jsonl"
VERDICTS = SHARED / "corpus" / "verdicts.tsv.gz"
FILES = SHARED / "corpus" / "robots"

needs_vectors = pytest.mark.skipif(not VECTORS.exists(), reason="shared/vectors/robots.jsonl is not beside the project")
needs_corpus = pytest.mark.skipif(not VERDICTS.exists(), reason="shared/corpus is not beside the project")


def expectations() -> Iterator[tuple[dict[str, str], bytes, bool]]:
    with VECTORS.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            body = base64.b64decode(row["robots_b64"]) if "robots_b64" in row else row["robots"].encode()
            yield row, body, row["allowed"]


@needs_vectors
def test_every_expectation_holds() -> None:
    wrong = []
    rows = 0
    for row, body, allowed in expectations():
        rows += 1
        token = row["agent"] if row["agent_kind"] == "token" else product_token(row["agent"])
        robots = parse(body)
        if (robots.verdict(row["url"], token).allowed, robots.allowed(row["url"], token)) != (allowed, allowed):
            wrong.append(row["id"])
    assert wrong == []
    assert rows >= 1778


@needs_vectors
def test_every_expectation_for_a_header_holds_through_scrapys_interface() -> None:
    wrong = []
    rows = 0
    for row, body, allowed in expectations():
        if row["agent_kind"] != "header":
            continue
        rows += 1
        parser = RFC9309RobotParser.from_crawler(None, body)  # type: ignore[arg-type]  # the crawler is not used
        answers = (
            parser.allowed(row["url"], row["agent"]),
            parser.allowed(row["url"].encode(), row["agent"].encode()),
        )
        if answers != (allowed, allowed):
            wrong.append(row["id"])
    assert wrong == []
    assert rows >= 86


@needs_corpus
def test_every_verdict_about_a_real_file_holds() -> None:
    wrong = []
    rows = 0
    files: dict[str, Robots] = {}
    with gzip.open(VERDICTS, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            name, token, url, decided, _ = line.rstrip("\n").split("\t")
            rows += 1
            if name not in files:
                files[name] = parse((FILES / name).read_bytes())
            verdict = files[name].verdict(url, token)
            if verdict.allowed is not (decided == "1") or files[name].allowed(url, token) is not verdict.allowed:
                wrong.append((name, token, url))
            elif not verdict.allowed and not verdict.source:
                wrong.append((name, token, "no line named"))
    assert wrong == []
    assert rows >= 30511


@needs_corpus
def test_every_real_file_can_be_asked_everything() -> None:
    for path in FILES.iterdir():
        robots = parse(path.read_bytes())
        for token in ("googlebot", "*", None, "zzfoobot"):
            assert robots.delay(token) >= (robots.crawl_delay(token) or 0.0)
            assert (robots.delay_source(token) == "") is (
                robots.crawl_delay(token) is None and robots.request_rate(token) is None
            )
            robots.visit_time(token)
            robots.group_label(token)
        assert all(warning.line >= 1 for warning in robots.warnings())
        assert all(isinstance(sitemap, str) for sitemap in robots.sitemaps)
        assert robots.is_empty in (True, False)
