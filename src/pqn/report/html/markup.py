"""HTML in which text stays text.

A page is made of elements only, and an element escapes whatever it is given that is not an element itself. Text from a
run can therefore not become markup, wherever it is put.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import TypeAlias

_VOID = ("meta", "img", "br", "hr", "input", "path")
_NAME = re.compile(r"[a-z][a-z0-9-]*")


class Html(str):
    """Text that is markup already. Only this module makes it from text."""

    __slots__ = ()


Child: TypeAlias = "str | Html | Iterable[Child] | None"


def element(tag: str, *children: Child, **attributes: str | bool | None) -> Html:
    """An element. Children that are no elements are escaped, None is left out, lists are joined.

    Args:
        tag: such as "td".
        children: text and elements.
        attributes: `class_` is class, `aria_label` is aria-label; None and False are left out, True has no value.
    """
    if not _NAME.fullmatch(tag):
        raise ValueError(f"{tag!r} is no element")
    given = "".join(_attribute(name, value) for name, value in attributes.items() if value not in (None, False))
    if tag in _VOID:
        return Html(f"<{tag}{given}>")
    return Html(f"<{tag}{given}>{join(children)}</{tag}>")


def join(children: Iterable[Child]) -> Html:
    """Children one after another."""
    parts: list[str] = []
    for child in children:
        if isinstance(child, Html):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(html.escape(_visible(child)))
        elif child is not None:
            parts.append(join(child))
    return Html("".join(parts))


def style(text: str) -> Html:
    """A style sheet of ours."""
    return Html(f"<style>{_whole('style', text)}</style>")


def script(text: str) -> Html:
    """A script of ours."""
    return Html(f"<script>{_whole('script', text)}</script>")


def data(identifier: str, json: str) -> Html:
    """JSON for the page's script. What could end the element or begin another is written as an escape of JSON."""
    for letter in "<>&\u2028\u2029":
        json = json.replace(letter, f"\\u{ord(letter):04x}")
    return Html(f'<script type="application/json" id="{html.escape(identifier)}">{json}</script>')


def document(head: Iterable[Child], body: Iterable[Child]) -> Html:
    """A whole page."""
    inside = f"<head>\n{join(head)}\n</head>\n<body>\n{join(body)}\n</body>"
    return Html(f'<!doctype html>\n<html lang="en">\n{inside}\n</html>\n')


def _attribute(name: str, value: str | bool | None) -> str:
    name = name.rstrip("_").replace("_", "-")
    if not _NAME.fullmatch(name) or name.startswith("on") or name == "style":  # those would be code
        raise ValueError(f"{name!r} is no attribute that a page may have")
    return f" {name}" if value is True else f' {name}="{html.escape(_visible(str(value)))}"'


def _visible(text: str) -> str:
    """Text without what cannot be seen or turns the reading direction of its neighbours."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text)


def _whole(tag: str, text: str) -> str:
    if f"</{tag}" in text.lower() or "<!--" in text:
        raise ValueError(f"this text would end its {tag} element")
    return text
