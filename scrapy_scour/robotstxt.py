"""The robots.txt engine behind Scrapy's own parser interface (``ROBOTSTXT_PARSER``)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from scrapy.robotstxt import RobotParser

from scrapy_scour.policy.agents import product_token
from scrapy_scour.policy.robots import Robots, parse

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self

# A crawl sends few different headers, and every request asks.
_token_of = lru_cache(maxsize=64)(product_token)


class RFC9309RobotParser(RobotParser):
    """``ROBOTSTXT_PARSER = "scrapy_scour.robotstxt.RFC9309RobotParser"``: the rules as RFC 9309 has them.

    ``user_agent`` may be a whole User-Agent header or a bare product token.
    """

    def __init__(self, robots: Robots) -> None:
        self.robots = robots
        """What `scrapy_scour.policy.robots.parse` made of the file."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, robotstxt_body: bytes) -> Self:
        return cls(parse(robotstxt_body))

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        if isinstance(url, bytes):
            url = url.decode("utf-8", "surrogateescape")
        return self.robots.allowed(url, _token_of(user_agent))

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        """Seconds that Crawl-delay asks of that agent, None if it asks nothing."""
        return self.robots.crawl_delay(_token_of(user_agent))
