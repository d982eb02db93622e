"""The report's file: whether it can be written, and writing it whole or not at all."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from scrapy_scour.outcomes import file_problems


def report_problems(path: str | None, outcomes_path: str | None) -> list[str]:
    """What speaks against ``SCOUR_REPORT_FILE``, in the words of a refused setting; nothing is left or changed."""
    if path is None:
        return []
    found = file_problems(path, "SCOUR_REPORT_FILE", replaced=True)
    if not found:
        try:  # a user's rights are not all: a file system may take no files
            tempfile.TemporaryFile(dir=Path(path).resolve().parent).close()
        except OSError as error:
            found.append(f"SCOUR_REPORT_FILE = {path!r}: must be a file that can be written; {error}")
    if outcomes_path is not None and Path(path).resolve() == Path(outcomes_path).resolve():
        found.append(f"SCOUR_REPORT_FILE = {path!r}: must not be SCOUR_OUTCOMES_FILE, which the page would replace")
    if importlib.util.find_spec("jinja2") is None:
        found.append(f"SCOUR_REPORT_FILE = {path!r}: needs jinja2; install scrapy-scour[report]")
    return found


def replace_file(path: Path, text: str) -> None:
    """Put ``text`` in the place of what ``path`` (or the file that it links to) holds: all of it or none.

    Raises OSError and leaves the old file. What UTF-8 cannot hold is written as its escape.
    """
    place = path.resolve()
    new = place.with_name(f".{place.name}.{os.getpid()}.tmp")
    try:
        with new.open("xb") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
            file.flush()
            os.fsync(file.fileno())
        new.replace(place)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise
