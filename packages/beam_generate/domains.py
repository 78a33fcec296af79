"""The 19 domains and the titles of paper Table 5, with the domains' names as the released data spells them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from beam_generate.shapes import Style
from beamlib.data.published import table
from beamlib.errors import UserError

_RELEASED: Mapping[str, str] = {
    "Career & Professional Development": "Career and Professional Development",
    "Legal & Administrative": "Legal and Administrative",
    "Philosophical & Ethical Discussion": "Philosophical or Ethical Discussion",
    "Therapy & Emotional Support": "Therapy and Emotional Support",
}
"""Where the released `category` differs from Table 5."""

_STYLES: Mapping[str, Style] = {"Coding": "coding", "Math": "math"}


@cache
def titles() -> Mapping[str, tuple[str, ...]]:
    """Domain (released spelling) -> its titles, both in the order of Table 5."""
    found: dict[str, list[str]] = {}
    for row in table("table5").itertuples():
        domain = str(row.domain)
        found.setdefault(_RELEASED.get(domain, domain), []).append(str(row.title))
    return {domain: tuple(names) for domain, names in found.items()}


def domains() -> tuple[str, ...]:
    """All domains in the order of Table 5, as released."""
    return tuple(titles())


def general_domains() -> tuple[str, ...]:
    """The seventeen domains that are neither coding nor mathematics."""
    return tuple(domain for domain in domains() if style_of(domain) == "general")


def style_of(domain: str) -> Style:
    """How a domain's plans and questions are written."""
    return _STYLES.get(domain, "general")


def parse_domain(text: str) -> str:
    """The domain meant by `text`, in either spelling and any case; a `UserError` lists the domains."""
    try:
        return _spellings()[_plain(text)]
    except KeyError:
        raise UserError(f"domain {text!r:.80} does not exist; choose one of: {', '.join(domains())}.") from None


def find_title(text: str) -> tuple[str, str] | None:
    """Domain and title of the Table 5 title that `text` spells in any case; None where there is none."""
    wanted = _plain(text)
    for domain, names in titles().items():
        for name in names:
            if _plain(name) == wanted:
                return domain, name
    return None


@cache
def _spellings() -> Mapping[str, str]:
    found = {_plain(domain): domain for domain in domains()}
    return found | {_plain(printed): released for printed, released in _RELEASED.items()}


def _plain(text: str) -> str:
    # "Career & Professional" and "Career and Professional" are one domain, however it is typed.
    return " ".join(text.casefold().replace("&", " and ").split())
