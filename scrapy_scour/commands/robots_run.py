"""Runs ``scrapy robots``: in a crawler that fetches robots.txt files and nothing else, or offline from a file.

The crawler is a real one with the project's settings, so that proxies, handlers and the store of robots.txt files are
those of a crawl; what else a crawl would do (feeds, pipelines, extensions, job directory) is left out. Its spider
yields no request.

``--json`` prints one object per URL and line. All keys are there in each; more may be added, none is taken away.

``url``           as given, without user and password; octets that are not UTF-8 as U+FFFD, here and elsewhere
``verdict``       "allowed", "refused" or "unknown" (it cannot be told: robots.txt could not be read, or this is no URL)
``reason``        why, in words
``line``          number of the line of robots.txt that decided, from 1, or of the Allow that permits what no Disallow
                  speaks about; null when no line did
``rule``          that line, without comment and space around it; null likewise
``origin``        scheme, host and port whose robots.txt it is; null for ``--file`` and when it was not asked
``group``         the group of rules that applied, as its first user-agent line names it; null without one, and when the
                  user's own parser reads the file
``group_is_own``  whether that is a group for the token by name, so that the group ``*`` does not apply
``agent``         the User-Agent that the answer is about; "" for none
``agent_from``    the setting or option that it comes from
``token``         the product token that the rules were read for; null for ``*``
``token_from``    the setting or option that it comes from
``delay``         seconds that a crawl would leave between two requests to the host; null when robots.txt was not asked
``delay_from``    what asks for it; null for none
``crawl_delay``   seconds that Crawl-delay asks for; null without one
``request_rate``  ``{"requests": n, "seconds": s}``; null without one
``robots``        how robots.txt was obtained; null when it was not asked (no URL, or out of scope):
                  ``state`` "read", "unavailable" (a 4xx: no rules), "unreachable" (nothing is permitted) or "file";
                  ``url`` the first address asked, or the file; ``status`` of the last answer, null without;
                  ``redirects`` the further addresses asked, in order; ``address`` IP address that answered, null when
                  unknown; ``size`` octets read, null without; ``truncated`` whether there was more; ``age`` seconds
                  since it was read, null without; ``problem`` why not, null; ``fetched_as`` the User-Agent that was
                  sent, null for a file
``sitemaps``      the sitemaps that the file names
``warnings``      what the owner of the site would want to know: ``{"line": n, "message": "..."}``, by line
``agents``        with ``--all-agents`` one object per crawler that the file names, and ``*``: ``token``, ``verdict``,
                  ``line``, ``rule``, ``delay`` (seconds asked for); else null
``notes``         what else is worth knowing about this run, in words
"""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_scour.commands.robots_answer import STATUS
from scrapy_scour.commands.robots_offline import run_offline
from scrapy_scour.commands.robots_online import run_online
from scrapy_scour.commands.robots_output import Desk, OutputGone
from scrapy_scour.commands.robots_plan import STDIN, BadInput, Plan, in_words
from scrapy_scour.exceptions import SettingsError

if TYPE_CHECKING:
    from scrapy.settings import Settings


def run(asked: Plan, settings: Settings) -> int:
    """Answer, and return the exit status. Raises BadInput, also for whatever of the project fails."""
    if sys.stdout is None:
        raise BadInput("standard output is closed")
    if sys.stdin is None and STDIN in (*asked.urls, asked.file):
        raise BadInput("standard input is closed")
    if sys.stderr is None:  # a log goes there, and must have somewhere to go
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - for the rest of the process
    desk = Desk(asked, sys.stdout)
    try:
        with redirect_stdout(sys.stderr):  # whatever the project prints is no answer
            if asked.file is not None:
                run_offline(desk, asked, asked.file, settings)
            else:
                run_online(desk, asked, settings)
    except BadInput:
        raise
    except SettingsError as error:
        first, *problems = str(error).splitlines()
        raise BadInput(f"{first} {'; '.join(problem.strip() for problem in problems)}") from error
    except OutputGone:
        desk.forget()
    except KeyboardInterrupt:
        return STATUS["unknown"]
    except (Exception, SystemExit) as error:
        raise BadInput(f"this project cannot be asked: {in_words(error)}") from error
    return desk.status()
