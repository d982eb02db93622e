"""Records how each request ended that did not become a page: once, in stats and for whoever listens.

Decides nothing: the category comes with the outcome, or from ``policy.failures``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_scour import stats
from scrapy_scour.exceptions import Outcome

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_scour.job import Job


class Outcomes:
    """All outcomes of one crawl; memory does not grow with them."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def record(self, request: Request, outcome: Outcome) -> None:
        """Count one ended request."""
        self._job.count.add(stats.OUTCOMES)
        self._job.count.add(stats.OUTCOME, outcome.category.value)
