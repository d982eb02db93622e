"""The robots.txt engine against Protego, both in one run: ``python tests/benchmarks/bench_robots.py``.

Files: the real ones in ``../shared/corpus/robots`` beside the project, or a generated set where they are not.  Per file
the median of several rounds, then median and mean over all files:

* parse plus first verdict: octets in, one answer out, as for the first page of an origin;
* a further verdict: other URLs of that origin, half of them under a path that its own file names, so that refusals and
  contested paths are far more frequent than in a crawl;
* memory per cached origin after those answers, as ``tracemalloc`` counts it, each side on its own.

Protego is called as Scrapy calls it (decoded, then ``can_fetch``), ours through ``parse`` and ``allowed``.  Beside it
are ``verdict``, which knows the rule that decided, and the same with its line read, which Protego cannot tell.
"""

from __future__ import annotations

import gc
import random
import re
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from time import perf_counter_ns
from typing import NamedTuple

from protego import Protego

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from scrapy_scour.policy.robots import Robots, parse  # noqa: E402

CORPUS = ROOT.parent / "shared" / "corpus" / "robots"
TOKEN = "mycrawler"
ROUNDS = 5
URLS_PER_FILE = 20


def generated_files(count: int = 500) -> list[bytes]:
    """Files of the shapes that are common: one long group, many named groups, a few stars, comments, sitemaps."""
    dice = random.Random(9309)
    words = ["admin", "search", "cart", "login", "api", "private", "tag", "page", "print", "wp-admin", "cgi-bin"]
    files = []
    for _ in range(count):
        lines = ["# robots.txt", ""]
        for agent in ["*", *(f"bot{number}" for number in range(dice.choice([0, 0, 1, 3, 20])))]:
            lines.append(f"User-agent: {agent}")
            for _ in range(dice.choice([1, 5, 20, 60])):
                path = "/" + "/".join(dice.choices(words, k=dice.choice([1, 1, 2, 3])))
                path = dice.choice([path + "/"] * 6 + ["/*" + path, path + "/*?", path + "$"])
                lines.append(f"{dice.choice(['Disallow'] * 5 + ['Allow'])}: {path}")
            lines += [f"Crawl-delay: {dice.choice([1, 5, 10])}"] * dice.choice([0, 0, 0, 0, 1]) + [""]
        lines.append("Sitemap: https://a.example/sitemap.xml")
        files.append("\n".join(lines).encode())
    return files


def urls_for(body: bytes, dice: random.Random) -> list[str]:
    """URLs as a crawl would ask about: ordinary ones, and ones that some rule of the file may be about."""
    named = [path.decode("latin-1") for path in re.findall(rb"(?i)allow:[ \t]*(/[!-~]*)", body)]
    ordinary = ["/", "/index.html", "/a/b/c?x=1&y=2", "/products/12345/name-of-a-thing", "/blog/2024/05/entry"]
    urls = []
    for number in range(URLS_PER_FILE):
        path = dice.choice(named).replace("*", "x").rstrip("$") if named and number % 2 else dice.choice(ordinary)
        urls.append("https://a.example" + path + (dice.choice(["", "x", "?q=1"]) if number % 2 else ""))
    return urls


def protego_parse(body: bytes) -> Protego:
    return Protego.parse(body.decode("utf-8-sig", errors="ignore"))


def timed(act: Callable[[], object]) -> float:
    """Microseconds, the median of the rounds."""
    times = []
    for _ in range(ROUNDS):
        start = perf_counter_ns()
        act()
        times.append((perf_counter_ns() - start) / 1000)
    return median(times)


def memory_of(make: Callable[[bytes, list[str]], object], files: list[tuple[bytes, list[str]]]) -> float:
    """KiB per file that stay allocated while all the results are kept."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = [make(body, urls) for body, urls in files]
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used / len(kept) / 1024


class Times(NamedTuple):
    """Microseconds per answer: ours, Protego's, ours as a verdict, and that with the line that decided."""

    ours: float
    protego: float
    verdict: float
    with_line: float


def first_answers(body: bytes, url: str) -> Times:
    return Times(
        timed(lambda: parse(body).allowed(url, TOKEN)),
        timed(lambda: protego_parse(body).can_fetch(url, TOKEN)),
        timed(lambda: parse(body).verdict(url, TOKEN)),
        timed(lambda: parse(body).verdict(url, TOKEN).source),
    )


def further_answers(body: bytes, urls: list[str]) -> Times:
    robots, protego = parse(body), protego_parse(body)
    count = len(urls)
    return Times(
        timed(lambda: [robots.allowed(url, TOKEN) for url in urls]) / count,
        timed(lambda: [protego.can_fetch(url, TOKEN) for url in urls]) / count,
        timed(lambda: [robots.verdict(url, TOKEN) for url in urls]) / count,
        timed(lambda: [robots.verdict(url, TOKEN).source for url in urls]) / count,
    )


def row(name: str, ours: list[float], theirs: list[float], unit: str, kinds: str = "median mean") -> None:
    for kind, of in (("median", median), ("mean", mean)):
        if kind in kinds:
            print(f"{name:36} {kind:7} {of(ours):9.2f} {of(theirs):9.2f} {unit:4} {of(theirs) / of(ours):6.1f} times")


def main() -> None:
    bodies = [path.read_bytes() for path in sorted(CORPUS.iterdir())] if CORPUS.exists() else generated_files()
    dice = random.Random(1)
    files = [(body, urls_for(body, dice)) for body in bodies]
    kind = "real" if CORPUS.exists() else "generated"
    print(f"Python {sys.version.split()[0]}, {len(files)} {kind} files, {mean(map(len, bodies)):.0f} octets on average")
    print(f"{'':36} {'':7} {'ours':>9} {'Protego':>9}")

    first: list[Times] = []
    further: list[Times] = []
    for body, urls in files:
        first.append(first_answers(body, urls[0]))
        further.append(further_answers(body, urls))
    for name, times in (("parse and first answer", first), ("further answer", further)):
        protego = [each.protego for each in times]
        row(name, [each.ours for each in times], protego, "us")
        row(f"{name}, as a verdict", [each.verdict for each in times], protego, "us")
        row(f"{name}, with line", [each.with_line for each in times], protego, "us")

    def ours(body: bytes, urls: list[str]) -> Robots:
        robots = parse(body)
        for url in urls:
            robots.verdict(url, TOKEN).source  # noqa: B018  # read, so that what it needs is there
        return robots

    def theirs(body: bytes, urls: list[str]) -> Protego:
        protego = protego_parse(body)
        for url in urls:
            protego.can_fetch(url, TOKEN)
        return protego

    row("memory per origin", [memory_of(ours, files)], [memory_of(theirs, files)], "KiB", "mean")


if __name__ == "__main__":
    main()
