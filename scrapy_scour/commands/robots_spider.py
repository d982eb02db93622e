"""The spider of ``scrapy robots``: it asks, and yields no request."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.spiderloader import get_spider_loader

from scrapy_scour.commands.robots_plan import BadInput, in_words
from scrapy_scour.commands.robots_settings import leave_out

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings, Settings
    from scrapy.spiderloader import SpiderLoaderProtocol


@contextmanager
def loaded(name: str | None) -> Iterator[Callable[[SpiderLoaderProtocol], type[Spider] | None]]:
    """Gives what finds the spider of this name, None for none; to be entered before the spiders are loaded.

    Modules that cannot be imported are no reason to stop, and no reason to speak, unless the spider is not found.
    """
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")

        def load(loader: SpiderLoaderProtocol) -> type[Spider] | None:
            if name is None:
                return None
            try:
                return loader.load(name)
            except KeyError:
                said = (str(one.message) for one in warned if issubclass(one.category, RuntimeWarning))
                causes = [text.rpartition("Could not load")[0].strip().rpartition("\n")[2] for text in said]
                why = f" (a module of spiders cannot be imported: {'; '.join(filter(None, causes))})" if causes else ""
                raise BadInput(f"there is no spider {name!r} here{why}") from None

        yield load


def spider_class(settings: BaseSettings, name: str | None) -> type[Spider] | None:
    """The class of the spider of this name, None for none. Raises BadInput."""
    with loaded(name) as load:
        return load(get_spider_loader(settings)) if name is not None else None


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
                except (Exception, SystemExit) as error:
                    raise BadInput(f"the spider {model.name} cannot be made: {in_words(error)}") from error
            leave_out(crawler.settings)
            crawler.signals.connect(spider._refuse, signal=signals.request_scheduled)
            return spider

        def _refuse(self) -> None:
            """Whatever is to be crawled is somebody else's: robots.txt files do not pass the scheduler."""
            raise IgnoreRequest("scrapy robots crawls nothing")

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
