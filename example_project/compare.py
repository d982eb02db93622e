"""Makes the tour twice, with stock Scrapy and with scrapy-scour, and prints both side by side as a Markdown table.

``python example_project/compare.py`` prints; ``--write`` also puts the table between its marks in the README. Run it
with the Python of an environment in which scrapy-scour is installed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from example.report import as_markdown

PROJECT = Path(__file__).resolve().parent
README = PROJECT.parent / "README.md"
BEGIN, END = "<!-- tour: begin -->", "<!-- tour: end -->"
WITHIN_S = 120


def tour(*arguments: str) -> dict[str, Any]:
    """One tour in a process of its own; its findings."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "scrapy", "crawl", "tour", "-a", f"report={report}", *arguments]
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=WITHIN_S, check=False)
        if done.returncode or not report.exists():
            sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return found


def write(table: str, readme: Path = README) -> None:
    """Put the table between its marks."""
    text = readme.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{readme}: {BEGIN} and {END} are not both there")
    readme.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into the README")
    options = parser.parse_args()
    table = as_markdown(tour("-a", "stock=1"), tour())
    print(table)
    if options.write:
        write(table)


if __name__ == "__main__":
    main()
