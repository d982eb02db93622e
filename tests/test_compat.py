"""What is read of Scrapy past its own methods says what they say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.http import Headers

from scrapy_scour import compat

NAMES = ["User-Agent", "user-agent", "USER-AGENT", "Retry-After", "retry-After", "Proxy-Authorization"]


@given(
    st.booleans(),
    st.dictionaries(st.sampled_from(NAMES) | st.sampled_from(NAMES).map(str.encode), st.lists(st.text("ab"))),
    st.sampled_from([b"User-Agent", b"Retry-After", b"Proxy-Authorization"]),
)
def test_the_values_of_a_header_are_those_of_getlist(
    plain: bool, values: dict[str | bytes, list[str]], name: bytes
) -> None:
    """Also where ``Headers`` is not the dict of lists that it is now."""
    headers = Headers(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compat, "_HEADERS_ARE_LISTS", plain and compat._HEADERS_ARE_LISTS)
        assert compat.values_of(headers, name) == headers.getlist(name)
