"""Writes the README's tables of settings, stats and exceptions: ``python -m tests.readme_tables --write``.

Each stands between two marks, ``<!-- settings: begin -->`` and ``<!-- settings: end -->``. Without ``--write`` they are
printed.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scrapy.exceptions import IgnoreRequest

from scrapy_scour import exceptions, stats
from scrapy_scour.exceptions import Outcome
from scrapy_scour.policy.pacing import MultipleOf
from scrapy_scour.settings import SETTINGS

README = Path(__file__).resolve().parents[1] / "README.md"


def cell(text: str) -> str:
    """Text that does not end a cell of a Markdown table."""
    return text.replace("``", "`").replace("|", "\\|").replace("*", "\\*")


def value(default: Any) -> str:
    """A default as a project would write it."""
    if isinstance(default, tuple):
        brackets = "()" if any(isinstance(item, MultipleOf) for item in default) else "[]"
        return f"{brackets[0]}{', '.join(value(item) for item in default)}{brackets[1]}"
    if isinstance(default, MultipleOf):
        return f"MultipleOf({default.factor:g})"
    if isinstance(default, float):
        return f"{default:g}"
    return f'"{default}"' if isinstance(default, str) else repr(default)


def settings_table() -> str:
    """Name, default, unit, rule and purpose of every setting."""
    rows = ["| setting | default | unit | must be | what for |", "|---|---|---|---|---|"]
    rows += [
        f"| `{one.name}` | `{value(one.default)}` | {one.unit} | {cell(one.rule)} | {cell(one.help)} |"
        for one in SETTINGS
    ]
    return "\n".join(rows)


def stat_name(stat: stats.Stat) -> str:
    """A key, its part named if it is a family."""
    if not stat.parts and stat not in stats.OPEN:
        return stat.name
    return stat.name.replace("{part}", "*")


def stat_parts(stat: stats.Stat) -> str:
    """What the part of a family can be."""
    if stat in stats.OPEN:
        return "as in stock Scrapy"
    if not stat.parts:
        return ""
    if stat.parts == stats.CATEGORIES:
        return "every failure category"
    if len(stat.parts) > 20:
        return f"{stat.parts[0]} to {stat.parts[-1]}"
    return ", ".join(f"`{part}`" for part in stat.parts)


def stats_table() -> str:
    """Every stats key with its meaning."""
    rows = ["| key | `*` stands for | counts |", "|---|---|---|"]
    rows += [f"| `{stat_name(one)}` | {stat_parts(one)} | {cell(one.help)} |" for one in stats.ALL]
    return "\n".join(rows)


def exception_classes() -> list[type[Exception]]:
    """Every exception that the package raises for others to see."""
    found = [
        one
        for one in vars(exceptions).values()
        if inspect.isclass(one) and issubclass(one, Exception) and one.__module__ == exceptions.__name__
    ]
    return [one for one in found if one is not Outcome]


def exceptions_table() -> str:
    """Every exception: its category, whether it is a drop, when it is raised."""
    rows = ["| exception | category | a drop | when |", "|---|---|---|---|"]
    for one in exception_classes():
        when = " ".join((one.__doc__ or "").split())
        names_one = issubclass(one, Outcome) and "category" in vars(one)
        category = f"`{one.category.value}`" if names_one else ""  # type: ignore[attr-defined]
        rows.append(
            f"| `{one.__name__}` | {category} | {'yes' if issubclass(one, IgnoreRequest) else 'no'} | {cell(when)} |"
        )
    return "\n".join(rows)


TABLES: dict[str, Callable[[], str]] = {
    "settings": settings_table,
    "stats": stats_table,
    "exceptions": exceptions_table,
}


def marks(name: str) -> tuple[str, str]:
    """The lines between which a table stands."""
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def between(text: str, name: str) -> str:
    """What stands between a table's marks; ValueError when they are not both there."""
    begin, end = marks(name)
    _, found, rest = text.partition(begin)
    inside, closed, _ = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{begin} and {end} are not both there")
    return inside.strip("\n")


def refreshed(text: str) -> str:
    """The README with its tables as the code has them now."""
    for name, table in TABLES.items():
        between(text, name)  # both marks are there
        begin, end = marks(name)
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n{table()}\n{end}{rest.partition(end)[2]}"
    return text


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        README.write_text(refreshed(README.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print("\n\n".join(table() for table in TABLES.values()))
