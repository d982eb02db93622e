"""The README is held to the code: settings, stats, meta keys, categories, exceptions, the explicit way in."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest
from scrapy.exceptions import IgnoreRequest
from scrapy.settings import BaseSettings, Settings

import scrapy_scour
from scrapy_scour import addon, stats
from scrapy_scour.policy.failures import FailureCategory
from scrapy_scour.settings import SETTINGS
from tests import readme_tables

ROOT = Path(__file__).resolve().parents[1]
TEXT = readme_tables.README.read_text(encoding="utf-8")
PACKAGE = sorted((ROOT / "scrapy_scour").rglob("*.py"))
KEY = re.compile(r"scour_[a-z_]+\Z")


def section(title: str) -> str:
    """The text of a section, up to the next heading of any depth."""
    _, *rest = re.split(rf"\n##+ {re.escape(title)}\n", TEXT)
    assert len(rest) == 1, f"the README has {len(rest)} sections {title!r}"
    return re.split(r"\n#{2,} ", rest[0], maxsplit=1)[0]


def first_cells(text: str) -> list[str]:
    """What stands in backquotes in the first cell of each row of the tables in a text."""
    cells = [line.split(" | ", 1)[0] for line in text.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def keys_in_code() -> set[str]:
    """Every string literal of the package that has the form of a meta key of ours."""
    return {
        node.value
        for path in PACKAGE
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and KEY.match(node.value)
    }


def keys_of_paragraph(text: str, begins: str) -> list[str]:
    """The keys that a paragraph names."""
    _, found, rest = text.partition(begins)
    assert found, f"no paragraph begins with {begins!r}"
    return re.findall(r"`(scour_[a-z_]+)`", rest.partition("\n\n")[0])


def commands() -> list[str]:
    """The README's command lines."""
    blocks = re.findall(r"\n```(?:\w*)\n(.*?)\n```", TEXT, re.DOTALL)
    return [block for block in blocks if "python3 -m venv" in block]


@pytest.mark.parametrize("name", list(readme_tables.TABLES))
def test_a_table_is_what_the_code_says(name: str) -> None:
    """Renew it with ``python -m tests.readme_tables --write``."""
    assert readme_tables.between(TEXT, name) == readme_tables.TABLES[name]()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda one: one.name)
def test_a_setting_has_one_row_with_default_unit_and_rule(setting: object) -> None:
    one = next(found for found in SETTINGS if found is setting)
    rows = [line for line in section("Settings").splitlines() if line.startswith(f"| `{one.name}` |")]
    assert len(rows) == 1
    _, default, unit, rule, *_ = [part.strip() for part in rows[0].strip("|").split(" | ")]
    assert default.strip("`") == readme_tables.value(one.default)
    assert unit == one.unit
    assert rule.replace("\\", "") == one.rule


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda one: one.name)
def test_a_default_as_written_reads_as_the_default(setting: object) -> None:
    one = next(found for found in SETTINGS if found is setting)
    written = eval(readme_tables.value(one.default), {"MultipleOf": scrapy_scour.MultipleOf})
    assert one.read(written) == one.read(one.default)


def test_every_stat_has_a_row_and_every_row_is_a_stat() -> None:
    assert first_cells(section("Stats")) == [readme_tables.stat_name(one) for one in stats.ALL]


def test_every_category_has_a_row_and_every_row_is_a_category() -> None:
    names = [name for name in first_cells(section("How a request ends")) if name.islower()]
    assert names == [category.value for category in FailureCategory]


def test_every_exception_says_whether_it_is_a_drop() -> None:
    rows = [line for line in readme_tables.between(TEXT, "exceptions").splitlines() if line.startswith("| `")]
    said = {line.split("`")[1]: line.split(" | ")[2] for line in rows}
    classes = readme_tables.exception_classes()
    assert said == {one.__name__: "yes" if issubclass(one, IgnoreRequest) else "no" for one in classes}
    assert len(classes) > 10


def test_every_meta_key_of_the_code_is_in_the_readme_and_the_other_way_round() -> None:
    said = set(re.findall(r"`(scour_[a-z_]+)`", TEXT))
    assert said == keys_in_code()


def test_a_key_is_public_or_internal_or_a_flag_or_a_finish_reason_and_only_one_of_them() -> None:
    meta = section("Request meta")
    kinds = [
        [name for name in first_cells(meta) if KEY.match(name)],
        keys_of_paragraph(meta, "Internal, to be left alone:"),
        keys_of_paragraph(meta, "Response flags:"),
        first_cells(section("Finish reasons")),
    ]
    assert all(kinds)
    named = [name for kind in kinds for name in kind]
    assert sorted(named) == sorted(keys_in_code())


def test_every_key_of_the_outcomes_file_is_in_the_readme_in_its_order() -> None:
    written = ast.parse((ROOT / "scrapy_scour" / "outcomes.py").read_text(encoding="utf-8"))
    keys = [
        [key.value for key in node.keys if isinstance(key, ast.Constant)]
        for node in ast.walk(written)
        if isinstance(node, ast.Dict) and len(node.keys) > 5
    ]
    assert keys == [first_cells(section("The outcomes file"))]


def test_the_readme_names_no_setting_that_does_not_exist() -> None:
    named = set(re.findall(r"SCOUR_[A-Z_]*[A-Z]", TEXT))
    assert named == {one.name for one in SETTINGS}


def test_the_readme_names_no_stock_setting_that_does_not_exist() -> None:
    named = set(re.findall(r"`([A-Z][A-Z_]{5,}[A-Z])(?: = [^`]*)?`", TEXT)) - {one.name for one in SETTINGS}
    known = set(Settings()) | {"JOBDIR", "CONCURRENT_REQUESTS_PER_IP", "DOWNLOAD_SLOTS"}  # not all have defaults
    assert named - known - {"CHANGELOG", "LICENSE"} == set()


def test_the_readme_names_no_stat_that_does_not_exist() -> None:
    named = set(re.findall(r"`(scour/[a-z_/*]+)`", TEXT))
    assert named <= {readme_tables.stat_name(one) for one in stats.ALL}


def test_the_readme_names_nothing_of_the_package_that_does_not_exist() -> None:
    named = set(re.findall(r"\bscrapy_scour(?:\.\w+)+", TEXT))
    assert named
    for name in named:
        module, _, attribute = name.rpartition(".")
        try:
            assert hasattr(importlib.import_module(module), attribute), name
        except ModuleNotFoundError:
            owner, _, middle = module.rpartition(".")
            assert hasattr(getattr(importlib.import_module(owner), middle), attribute), name


def test_the_explicit_settings_of_the_readme_come_to_what_the_add_on_sets() -> None:
    block = re.search(r"```python\n(# settings\.py\nimport scrapy_scour\n.*?)```", TEXT, re.DOTALL)
    assert block
    said: dict[str, object] = {}
    exec(block[1], said)
    written = {name: value for name, value in said.items() if name.isupper()}
    by_addon = BaseSettings({"DOWNLOADER_MIDDLEWARES": {}, "EXTENSIONS": {}, "CONCURRENT_REQUESTS_PER_IP": 0})
    addon.Addon(None).update_settings(by_addon)  # type: ignore[arg-type]
    del by_addon["CONCURRENT_REQUESTS_PER_IP"]
    assert written == by_addon.copy_to_dict()


def test_the_bot_of_the_readme_sends_what_the_readme_says() -> None:
    block = re.search(r"```python\n(from scrapy_scour import BotUserAgent\n.*?)```", TEXT, re.DOTALL)
    assert block
    said: dict[str, object] = {}
    exec(block[1], said)
    assert f"It sends `{said['SCOUR_BOT_USER_AGENT']}`" in TEXT


def test_the_versions_of_the_readme_are_those_of_the_package() -> None:
    config = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    python = re.search(r"python_requires = >=([\d.]+)", config)
    scrapy = re.search(r"scrapy>=([\d.]+)", config)
    assert python
    assert scrapy
    assert f"scrapy-scour needs Python {python[1]} and Scrapy {scrapy[1]}, or newer." in TEXT


def test_the_two_commands_use_what_is_there() -> None:
    tour, suite = commands()
    assert "pip install -e . " in tour
    assert "(cd example_project && ../.venv/bin/scrapy crawl tour)" in tour
    assert (ROOT / "example_project" / "scrapy.cfg").exists()
    assert "pip install -e '.[test]'" in suite
    assert "\ntest =\n" in (ROOT / "setup.cfg").read_text(encoding="utf-8")
    assert all("\n" not in command for command in (tour, suite))
