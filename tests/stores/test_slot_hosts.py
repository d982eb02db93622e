"""What is known of the hosts whose requests wait in one slot."""

from __future__ import annotations

import random
from collections import Counter

from scrapy_scour.stores.slot_hosts import MOST_HOSTS, SlotHosts


def test_what_came_while_it_looked_on_is_counted_exactly() -> None:
    draw = random.Random(5)
    hosts, there = SlotHosts(host="a.test", count=3), Counter({"a.test": 3})
    for _ in range(2000):
        present = [host for host, count in there.items() if count]
        if present and draw.random() < 0.55:
            host = draw.choice(present)
            hosts.went(host)
            there[host] -= 1
        else:
            host = draw.choice(("a.test", "b.test", "c.test"))
            hosts.came(host)
            there[host] += 1
        assert hosts.several is (sum(count > 0 for count in there.values()) > 1)


def test_what_an_earlier_run_left_is_of_one_host_until_two_were_seen_and_the_last_one_is_of_one_again() -> None:
    hosts = SlotHosts(unknown=4)
    assert not hosts.several
    for _ in range(2):
        hosts.next_is("a.test")
        assert not hosts.several
        hosts.came("a.test")
        hosts.went("a.test")
    hosts.went("a.test")
    hosts.next_is("b.test")
    assert hosts.several
    hosts.went("b.test")
    assert hosts.several  # two are left, of whom is not known
    hosts.went("b.test")
    hosts.next_is("b.test")
    assert not hosts.several
    hosts.came("a.test")
    assert hosts.several


def test_one_of_another_host_beside_what_an_earlier_run_left_makes_them_several() -> None:
    hosts = SlotHosts(unknown=2)
    hosts.came("b.test")
    assert not hosts.several
    hosts.next_is("a.test")
    assert hosts.several


def test_where_none_can_be_seen_those_of_an_earlier_run_may_be_of_several() -> None:
    hosts = SlotHosts(unknown=2)
    hosts.next_is(None)
    assert hosts.several
    known = SlotHosts(host="a.test", count=2)
    known.next_is(None)
    assert not known.several


def test_no_more_than_so_many_hosts_are_counted_and_none_is_taken_for_another() -> None:
    hosts = SlotHosts()
    for number in range(2 * MOST_HOSTS):
        hosts.came(f"{number}.test")
    assert len(hosts._counts) == MOST_HOSTS
    for number in range(2 * MOST_HOSTS - 1):
        assert hosts.several
        hosts.went(f"{number}.test")
    assert not hosts.several
