"""A Scrapy project that shows what scrapy-scour does: ``scrapy crawl tour`` and ``scrapy crawl polite``."""
