"""What an answer to a robots.txt request means for the site (RFC 9309 2.3.1).

Decides from a status, a chain of redirects or the lack of an answer. It does not fetch, does not read rules and does
not wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from scrapy_scour.policy.addresses import is_private
from scrapy_scour.policy.redirects import REDIRECT_STATUSES, resolve_location
from scrapy_scour.policy.urls import host_of, origin_of

#: RFC 9309 2.3.1.2: follow at least five consecutive redirects.
MAX_HOPS = 5


class Means(str, Enum):
    """What an answer means. ``RULES``: read the body. ``NO_RULES``: the site has nothing to say, all is allowed.
    ``NOT_OBTAINED``: the site could not tell, which is not yes."""

    RULES = "rules"
    NO_RULES = "no_rules"
    NOT_OBTAINED = "not_obtained"


@dataclass(frozen=True)
class Next:
    """Where to read on after a redirect: ``url``, or None with the ``problem`` in words."""

    url: str | None
    problem: str = ""


def meaning(status: int) -> Means:
    """What a final status means (RFC 9309 2.3.1.1, 2.3.1.3, 2.3.1.4).

    2xx are the rules. 4xx mean no rules, but 407, which is the proxy's word and not the site's, and 429, which says
    "later", not "nothing here". Everything else, a 3xx that was not followed included, is not a yes.
    """
    if 200 <= status <= 299:
        return Means.RULES
    if 400 <= status <= 499 and status not in (407, 429):
        return Means.NO_RULES
    return Means.NOT_OBTAINED


def next_hop(url: str, status: int, location: bytes | None, trail: list[str], *, private_addresses: bool) -> Next:
    """Where a redirect of robots.txt leads (RFC 9309 2.3.1.2): to other hosts too, five hops at most.

    ``trail`` holds the URLs asked so far, ``url`` the last of them. A public host may not send us to a private
    address unless ``private_addresses``.
    """
    if status not in REDIRECT_STATUSES:
        return Next(None, f"status {status}")
    if location is None:
        return Next(None, f"status {status} without a Location")
    if len(trail) > MAX_HOPS:
        return Next(None, f"more than {MAX_HOPS} redirects")
    target = resolve_location(url, location, base_fragment="")
    if target.url is None or target.problem or origin_of(target.url) is None:
        return Next(None, f"redirects to an unusable address ({target.problem or 'not http or https'})")
    if target.url.partition("#")[0] in trail:
        return Next(None, "redirects in a circle")
    if not private_addresses and is_private(host_of(target.url)) and not is_private(host_of(url)):
        return Next(None, "redirects to a private address")
    return Next(target.url.partition("#")[0])
