"""Polite crawling for Scrapy: one line in the settings, ``ADDONS = {"scrapy_scour.Addon": 500}``."""

from __future__ import annotations

from scrapy_scour.addon import DOWNLOADER_MIDDLEWARES, EXTENSIONS, Addon
from scrapy_scour.policy.agents import BotUserAgent
from scrapy_scour.policy.failures import FailureCategory
from scrapy_scour.policy.pacing import MultipleOf

__version__ = "1.0.0"

__all__ = [
    "DOWNLOADER_MIDDLEWARES",
    "EXTENSIONS",
    "Addon",
    "BotUserAgent",
    "FailureCategory",
    "MultipleOf",
]
