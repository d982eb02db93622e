"""The spider of ``scrapy robots``: it asks, and yields no request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from scrapy import Spider
from scrapy.crawler import Crawler

from scrapy_scour.commands.robots_plan import BadInput
from scrapy_scour.commands.robots_settings import leave_out

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings, Settings


def asking_spider(
    model: type[Spider] | None,
    arguments: dict[str, str],
    settings: Settings,
    ask: Callable[[Crawler], Any] | None = None,
) -> type[Spider]:
    """The class of a spider that asks instead of crawling.

    It has the settings and the attributes of ``model``, whose own code runs no further than its construction: beside a
    crawler that never starts, so that none of its handlers hears anything, but with the settings of the one that asks.
    """

    class Asking(Spider):
        name = model.name if model is not None else "robots"
        #: Scrapy calls what a spider has of this name when it ends; the model's would end a crawl that never was.
        closed = None

        @classmethod
        def update_settings(cls, settings: BaseSettings) -> None:
            if model is not None:
                model.update_settings(settings)

        @classmethod
        def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Asking:
            spider = super().from_crawler(crawler)
            if model is not None:
                try:
                    beside = Crawler(model, settings)
                    beside.settings = crawler.settings
                    spider.__dict__["_model"] = model.from_crawler(beside, **arguments)
                except Exception as error:
                    why = " ".join(str(error).split())
                    raise BadInput(f"the spider {model.name} cannot be made: {type(error).__name__}: {why}") from error
            leave_out(crawler.settings)
            return spider

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__") or "_model" not in self.__dict__:
                raise AttributeError(name)
            return getattr(self.__dict__["_model"], name)

        async def start(self) -> AsyncIterator[Any]:
            if ask is not None:
                await ask(self.crawler)
            return
            yield

    return Asking
