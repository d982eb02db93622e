"""The tour's findings as text for a terminal of 100 columns, and two tours side by side as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH = 100
_LEFT = 38

Row = Sequence[str]
"""Title of a station, its sites, what their logs say."""


def as_text(label: str, rows: Sequence[Row]) -> str:
    """A table for a terminal: the station and its sites on the left, the servers' word on the right."""
    right = WIDTH - _LEFT - 2
    lines = ["", f"What each server saw, {label}", "=" * WIDTH]
    for title, sites, saw in rows:
        left = [*textwrap.wrap(title.replace("`", ""), _LEFT), *textwrap.wrap(f"[{sites}]", _LEFT)]
        said = textwrap.wrap(saw, right)
        for number in range(max(len(left), len(said))):
            cells = [cells[number] if number < len(cells) else "" for cells in (left, said)]
            lines.append(f"{cells[0]:<{_LEFT}}  {cells[1]}".rstrip())
        lines.append("-" * WIDTH)
    return "\n".join(lines)


def as_markdown(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Two tours as one table; every cell but those of the first column is what the servers' logs say."""
    lines = [
        f"| what the sites do | stock Scrapy {before['scrapy']}, `ROBOTSTXT_OBEY = True` | with scrapy-scour |",
        "|---|---|---|",
    ]
    for (title, _, stock), (_, _, ours) in zip(before["rows"], after["rows"], strict=True):
        lines.append(f"| {title} | {stock} | {ours} |")
    return "\n".join(lines)
