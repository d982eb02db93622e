"""Polite crawling for Scrapy: one line in the settings, ``ADDONS = {"scrapy_scour.Addon": 500}``.

Names are loaded when they are asked for: every ``scrapy`` command imports this package to learn about
``scrapy robots``, and none may start slower for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy_scour.addon import DOWNLOADER_MIDDLEWARES, EXTENSIONS, OTHER_SETTINGS, Addon
    from scrapy_scour.external import PoliteFetcher
    from scrapy_scour.policy.agents import BotUserAgent
    from scrapy_scour.policy.failures import FailureCategory, failure_category
    from scrapy_scour.policy.pacing import MultipleOf

__version__ = "1.0.0"

__all__ = [
    "DOWNLOADER_MIDDLEWARES",
    "EXTENSIONS",
    "OTHER_SETTINGS",
    "Addon",
    "BotUserAgent",
    "FailureCategory",
    "MultipleOf",
    "PoliteFetcher",
    "failure_category",
]

_MODULES = {
    "DOWNLOADER_MIDDLEWARES": "addon",
    "EXTENSIONS": "addon",
    "OTHER_SETTINGS": "addon",
    "Addon": "addon",
    "BotUserAgent": "policy.agents",
    "FailureCategory": "policy.failures",
    "MultipleOf": "policy.pacing",
    "PoliteFetcher": "external",
    "failure_category": "policy.failures",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
