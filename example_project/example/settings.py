"""Settings of the example. The one line that scrapy-scour needs is the ``ADDONS`` line."""

from __future__ import annotations

BOT_NAME = "example"
SPIDER_MODULES = ["example.spiders"]
NEWSPIDER_MODULE = "example.spiders"

ADDONS = {"scrapy_scour.Addon": 500}

USER_AGENT = "examplebot/1.0 (+http://example.test/bot)"
LOG_LEVEL = "INFO"
LOGSTATS_INTERVAL = 0
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
