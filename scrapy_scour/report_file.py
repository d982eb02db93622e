"""The report's file: whether it can be written, and writing it whole or not at all."""

from __future__ import annotations

import importlib
import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from scrapy_scour.outcomes import file_problems

_SETTING = "SCOUR_REPORT_FILE"
#: What names that no file can have, and links in a circle, raise.
_NO_PATH = (OSError, ValueError, RuntimeError)


def report_problems(path: str | None, outcomes_path: str | None) -> list[str]:
    """What speaks against ``SCOUR_REPORT_FILE``, in the words of a refused setting; nothing is left or changed."""
    if path is None:
        return []
    try:
        found = file_problems(path, _SETTING, replaced=True)
        if not found:
            _check_replaceable(Path(path).resolve())
    except _NO_PATH as error:
        found = [f"{_SETTING} = {path!r}: must be a file that can be written; {error}"]
    with suppress(*_NO_PATH):
        if outcomes_path is not None and Path(path).resolve() == Path(outcomes_path).resolve():
            found.append(f"{_SETTING} = {path!r}: must not be SCOUR_OUTCOMES_FILE, which the page would replace")
    try:
        importlib.import_module("jinja2")
    except ModuleNotFoundError:
        found.append(f"{_SETTING} = {path!r}: needs jinja2; install scrapy-scour[report]")
    except Exception as error:  # there, but broken: the end of a crawl is too late to see it
        found.append(f"{_SETTING} = {path!r}: needs jinja2, which cannot be imported; {type(error).__name__}: {error}")
    return found


def replace_file(path: Path, text: str) -> None:
    """Put ``text`` in the place of what ``path`` (or the file that it links to) holds: all of it or none.

    A file that was there keeps its permissions. Raises OSError and leaves the old file; so too for what is no file.
    What UTF-8 cannot hold is written as its escape.
    """
    place = path.resolve()
    replaced = _is_there(place)
    new = place.with_name(f".{secrets.token_hex(8)}.tmp")  # short, and never one that an earlier crawl has left
    try:
        with new.open("xb") as file:
            if replaced:
                shutil.copymode(place, new)  # before there is anything to read in it
            file.write(text.encode("utf-8", "backslashreplace"))
            file.flush()
            os.fsync(file.fileno())
        new.replace(place)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise


def _check_replaceable(place: Path) -> None:
    """Raise OSError or ValueError when no file can be put in this place."""
    _is_there(place)
    tempfile.TemporaryFile(dir=place.parent).close()  # a user's rights are not all: a file system may take no files


def _is_there(place: Path) -> bool:
    """Whether a file is there; OSError for a device, a pipe or the like, which a page must not take the place of."""
    try:
        place.stat()
    except FileNotFoundError:
        return False
    if not place.is_file():
        raise OSError(f"{str(place)!r} is no regular file")
    return True
