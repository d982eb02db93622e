"""``scrapy robots URL``: may this URL be crawled, and which line says so?

Every scrapy command imports this module to learn the name of the command, so nothing is imported here but what such a
command has loaded already, and nothing here can fail. What it does is in ``robots_run``, loaded when it is asked for.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from scrapy.commands import ScrapyCommand

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from scrapy_scour.commands.robots_plan import Plan


class Command(ScrapyCommand):
    """Exit status: 0 all URLs are allowed, 1 some are refused, 2 it cannot be told (bad input included)."""

    requires_project = False
    requires_crawler_process = False  # made when it is needed, where its failure can be told in one line
    _plan: Plan

    def syntax(self) -> str:
        return "[options] URL [URL ...]"

    def short_desc(self) -> str:
        return "Tell whether URLs may be crawled, and which line of robots.txt says so"

    def long_desc(self) -> str:
        return (
            "Tell whether URLs may be crawled by this project, which line of robots.txt says so, and at what pace."
            " Fetches robots.txt files and nothing else. A URL of - reads URLs from standard input, one per line."
            " Exit status: 0 all allowed, 1 some refused, 2 it cannot be told."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        super().add_options(parser)
        parser.error = self._stop  # type: ignore[method-assign]  # one line, without the usage
        parser.add_argument(
            "--agent",
            metavar="NAME-OR-HEADER",
            help="ask for this crawler instead of the project's: a product token, or a whole User-Agent header,"
            " which is then sent, too",
        )
        parser.add_argument(
            "--file",
            metavar="FILE",
            help="read the rules from this file (- for standard input); nothing is fetched. A URL may be a bare path",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object per URL and line")
        parser.add_argument(
            "--all-agents", action="store_true", help="also tell what every crawler that the file names may do"
        )
        parser.add_argument("--spider", metavar="NAME", help="use the settings and the scope of this spider")
        parser.add_argument(
            "-a",
            dest="spargs",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="set an argument of that spider (may be repeated)",
        )

    def process_options(self, args: list[str], opts: Namespace) -> None:
        from scrapy_scour.commands import robots_plan, robots_settings

        assert self.settings is not None
        try:
            super().process_options(args, opts)
            self._plan = robots_plan.plan(args, opts)
            robots_settings.prepare(self.settings, self._plan)
        except robots_plan.BadInput as error:
            self._stop(str(error))
        except (OSError, ValueError) as error:  # of what is written here: --pidfile
            self._stop(f"--pidfile {opts.pidfile}: {getattr(error, 'strerror', None) or error}")

    def run(self, args: list[str], opts: Namespace) -> None:
        from scrapy_scour.commands import robots_plan, robots_run

        assert self.settings is not None
        try:
            self.exitcode = robots_run.run(self._plan, self.settings)
        except robots_plan.BadInput as error:
            self._stop(str(error))

    @staticmethod
    def _stop(message: str) -> NoReturn:
        if sys.stderr is not None:
            sys.stderr.write(f"scrapy robots: {' '.join(message.splitlines())}\n")
        sys.exit(2)
