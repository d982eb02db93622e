"""Who we are: the product token of a User-Agent header, and a header that says it properly.

Decides which name a robots.txt is asked under (RFC 9309 2.2.1).  Which header is sent is not decided here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from scrapy_scour.policy.urls import origin_of

_PRODUCT = re.compile(r"[A-Za-z_\-]+\Z")  # RFC 9309 2.2.1
_VERSION = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~\-]+\Z")  # RFC 9110 10.1.5: product-version is a token
_NO_PRODUCT = re.compile(r"[\x00-\x20\x7f\"(),/:;<=>?@\[\\\]{}]")  # RFC 9110 5.6.2; non-ASCII names exist
_ENDS_PRODUCT = re.compile(r"[/\s(;]")
_COMPATIBLE = re.compile(r"\bcompatible\s*;\s*(.*)\Z", re.IGNORECASE | re.DOTALL)
# Also what stands in the comment of a header that hides its product ends at the comment's end.
_ENDS_COMMENT_PRODUCT = re.compile(r"[/\s();,]")
_STRING_FORM = re.compile(
    r"(?P<product>[^/\s(]+)(?:/(?P<version>[^\s(]+))?(?:\s*\(\s*(?:\+\s*)?(?P<info_url>[^\s)]+)\s*\))?\Z"
)


def product_token(header: str | bytes | None) -> str | None:
    """The name in a User-Agent header that robots.txt rules are looked up under; None when there is none.

    The leading product up to ``/``, space, ``(`` or ``;``; if that is ``Mozilla``, the product after
    ``compatible;``. Never ``Mozilla`` itself: every browser says so, it names nobody.
    """
    if isinstance(header, bytes):
        header = header.decode("utf-8", "surrogateescape")
    header = (header or "").strip()
    token = _ENDS_PRODUCT.split(header, maxsplit=1)[0]
    if token.lower() == "mozilla":
        behind = _COMPATIBLE.search(header)
        token = _ENDS_COMMENT_PRODUCT.split(behind[1], maxsplit=1)[0] if behind else ""
    if token.lower() in ("", "mozilla", "*") or _NO_PRODUCT.search(token):
        return None
    return token


def valid_product_token(token: str) -> bool:
    """Whether a crawler may call itself that: letters, ``_`` and ``-`` only (RFC 9309 2.2.1)."""
    return _PRODUCT.match(token) is not None


@dataclass(frozen=True)
class BotUserAgent:
    """An honest User-Agent: ``str()`` is the header, ``token`` the name that robots.txt files are asked
    under.

    ``product``: the product token, letters, ``_`` and ``-`` (RFC 9309 2.2.1); ``info_url``: an http(s) page
    about the crawler; ``version``: of the crawler, a token of RFC 9110.  Raises ValueError on anything else.
    """

    product: str
    info_url: str | None = None
    version: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.product, str) or not valid_product_token(self.product):
            raise ValueError(
                f"product must be letters, '_' and '-' only (RFC 9309 2.2.1), "
                f"put a version into version=: {self.product!r}"
            )
        if self.product.lower() in ("mozilla", "compatible"):
            raise ValueError(f"product must name this crawler, every browser says {self.product!r}")
        if self.version is not None and not (isinstance(self.version, str) and _VERSION.match(self.version)):
            raise ValueError(f"version must be one word without spaces, brackets or '/': {self.version!r}")
        if self.info_url is not None and not _fits_a_comment(self.info_url):
            raise ValueError(
                f"info_url must be an absolute http(s) URL without user, spaces, brackets or ';': {self.info_url!r}"
            )

    @property
    def token(self) -> str:
        """The product token: ``product_token(str(self))``."""
        return self.product

    def __str__(self) -> str:
        product = self.product if self.version is None else f"{self.product}/{self.version}"
        info = "" if self.info_url is None else f"; +{self.info_url}"
        return f"Mozilla/5.0 (compatible; {product}{info})"

    @classmethod
    def from_string(cls, text: str) -> BotUserAgent:
        """From the form for a command line: ``MyCrawler``, ``MyCrawler/1.2``, ``MyCrawler/1.2
        (+https://x.example/bot)``.

        The full header that ``str()`` gives is understood too.  Raises ValueError.
        """
        text = text.strip()
        header = re.fullmatch(r"Mozilla/5\.0 \(compatible; ([^\s;()]+)(?:; \+([^\s()]+))?\)", text)
        if header:
            text = header[1] if header[2] is None else f"{header[1]} (+{header[2]})"
        found = _STRING_FORM.match(text)
        if not found:
            raise ValueError(f"expected Name, Name/version or Name/version (+https://page.about.it): {text!r}")
        return cls(**found.groupdict())


def _fits_a_comment(url: object) -> bool:
    """Whether it is an http(s) URL that can stand in a User-Agent comment and be read back."""
    return (
        isinstance(url, str)
        and origin_of(url) is not None
        and url.isascii()
        and re.search(r"[\x00-\x20\x7f();\\@]", url) is None
    )
