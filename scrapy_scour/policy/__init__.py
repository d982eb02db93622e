"""Decides. Pure: no scrapy, twisted, asyncio, clock, dice or log; the current time is an argument."""
