"""Measurements that people write into pages, and the data that they come from.

`results/claims.toml` ties each of them to a field of a file. A number looks like a measurement if

- a unit follows it, also after "to" and a second number: steps/s (with k or M), s, seconds, minutes, hours, ms, µs, %,
  GB, MB, × or -fold (but not "95 % bootstrap", "95 % interval");
- it counts some of several: "10 of 10 seeds", "3 of 20 runs", "40 of 57 games";
- it is all that a cell of a table holds, perhaps with an interval, a unit or "±"; the first column does not count.

Generated parts, code, headings, link targets and comments do not count. What looks like a measurement and is none, such
as a number of the paper or a setting, is marked: `<!-- not measured: why -->` in its paragraph, or alone before it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pqn.errors import RunError
from pqn.experiments.markers import without_generated
from pqn.report.statistics import iqm, mean, median

CLAIMS = Path("results") / "claims.toml"

_NUMBER = r"[−-]?\d+(?:[ ,]\d{3})*(?:\.\d+)?(?:e[+−-]?\d+)?"
_UNIT = r"(?:[kM] )?steps/s|seconds?|minutes?|hours?|s|ms|µs|%|GB|MB|×(?! ?\d)|-fold"
_WITH_UNIT = re.compile(rf"(?<![\w.^−-])({_NUMBER})(?: ?[kM])?(?:-| )?(?:{_UNIT})(?![\w/])(?! bootstrap| interval)")
_RANGE = re.compile(rf"(?<![\w.^−-])({_NUMBER})(?: ?[kM])? (?:to|and) {_NUMBER}(?: ?[kM])?(?:-| )?(?:{_UNIT})(?![\w/])")
_COUNTED = re.compile(rf"(?<![\w.])({_NUMBER}) of (?:all )?\d+ (?:seeds?|runs?|games?|episodes?|battles?|tasks?)\b")
_CELL = re.compile(rf"^\**({_NUMBER})\**(?: ?[kM])?(?: ?(?:{_UNIT}))?(?: ?[±(\[,/].*)?\**$")
_NOT_MEASURED = re.compile(r"<!-- not measured: [^>]+ -->")
_HIDDEN = re.compile(
    r"^```.*?^```|`[^`\n]*`|<!--.*?-->|^#+ .*?$|\]\([^)]*\)|^ {4}.*?$|^\|[ :|-]+\|$", re.DOTALL | re.MULTILINE
)


class Measurement(NamedTuple):
    """A number in a page that looks like a measurement."""

    start: int
    line: int
    text: str


@dataclass(frozen=True)
class Claim:
    """A sentence's number and where it comes from."""

    page: str
    says: str
    """Words of the page with the number in brackets: `reaches 475 after [3.3] s`."""
    file: str
    """Relative to the root of the repository; of a .jsonl file the first part of `field` is the line, from 1."""
    field: str
    """Where the number is, as names and indices with / between them."""
    tolerance: float
    """How far the written number may be from the data: half a unit of its last digit, as a rule."""
    scale: float = 1.0
    """The data are multiplied by this first, for other units."""
    reduce: str = ""
    """For several numbers: min, max, mean, median, iqm, sum or last."""


def measurements(page: str) -> list[Measurement]:
    """The numbers of a page that look like measurements."""
    text = without_generated(page)
    shown = _HIDDEN.sub(lambda found: re.sub(r"[^\n]", "\0", found.group()), text)
    excused = _excused(text)
    found = {
        match.start(1): match.group(1) for rule in (_WITH_UNIT, _RANGE, _COUNTED) for match in rule.finditer(shown)
    }
    offset = 0
    for line in shown.splitlines(keepends=True):
        if line.startswith("|"):
            place = offset
            for column, cell in enumerate(line.split("|")):
                match = _CELL.match(cell.strip())
                if match and column > 1:
                    found[place + cell.index(match.group(1))] = match.group(1)
                place += len(cell) + 1
        offset += len(line)
    return [
        Measurement(start, text.count("\n", 0, start) + 1, number)
        for start, number in sorted(found.items())
        if not any(first <= start < last for first, last in excused)
    ]


def _excused(text: str) -> list[tuple[int, int]]:
    """The paragraphs and tables that are marked as not measured; a mark that stands alone is of what follows."""
    spans = []
    blocks = [(found.start(), found.end()) for found in re.finditer(r"(?:.+(?:\n|$))+", text)]
    for place, (start, end) in enumerate(blocks):
        mark = _NOT_MEASURED.search(text, start, end)
        if mark is not None:
            alone = not _NOT_MEASURED.sub("", text[start:end]).strip()
            spans.append(blocks[place + 1] if alone and place + 1 < len(blocks) else (start, end))
    return spans


def read_claims(path: Path) -> list[Claim]:
    """The claims of a file.

    Raises:
      RunError: it is damaged.
    """
    try:
        return [Claim(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("claim", [])]
    except (OSError, ValueError, TypeError) as error:
        raise RunError(f"{path} is damaged: {error}") from error


def problems(root: Path, pages: Iterable[str], claims: Iterable[Claim]) -> list[str]:
    """What is wrong, a sentence each: a number parts from its data, is not in its page, or has no data."""
    claims, found = list(claims), []
    for name in pages:
        page = without_generated((root / name).read_text(encoding="utf-8"))
        covered: set[int] = set()
        for claim in (claim for claim in claims if claim.page == name):
            places = _places(page, claim.says)
            covered |= set(places)
            found += [f"{name}: {claim.says!r} is there {len(places)} times"] if len(places) != 1 else []
            found += check(root, claim)
        found += [
            f"{name}:{each.line}: {each.text} looks like a measurement and no claim in {CLAIMS} names its data"
            for each in measurements((root / name).read_text(encoding="utf-8"))
            if each.start not in covered
        ]
    unknown = sorted({claim.page for claim in claims} - set(pages))
    return found + [f"{CLAIMS} has claims of {name}, which is not a page that is checked" for name in unknown]


def check(root: Path, claim: Claim) -> list[str]:
    """Whether a claim agrees with its data: no sentence, or one."""
    written = number(re.findall(r"\[([^\]]+)\]", claim.says)[-1])
    try:
        value = read_value(root / claim.file, claim.field, claim.reduce) * claim.scale
    except (OSError, ValueError, LookupError, TypeError) as error:
        return [f"{claim.page}: {claim.says!r}: {claim.file} has no {claim.field}: {error!r}"]
    if abs(value - written) <= claim.tolerance:
        return []
    return [f"{claim.page}: {claim.says!r}, but {claim.file} has {value:.6g} in {claim.field}"]


def read_value(path: Path, field: str, reduce: str = "") -> float:
    """A number of a JSON or JSON-lines file."""
    text = path.read_text(encoding="utf-8")
    words = field.split("/")
    if path.suffix == ".jsonl":
        text = text.splitlines()[int(words.pop(0)) - 1]
    content = json.loads(text)
    for word in words:
        content = content[int(word)] if isinstance(content, list) else content[word]
    if not reduce:
        return float(content)
    values = [float(value) for value in content if value is not None]
    if reduce == "last":
        return values[-1]
    return float({"min": min, "max": max, "mean": mean, "median": median, "iqm": iqm, "sum": sum}[reduce](values))


def number(text: str) -> float:
    """`−1 234.5` as −1234.5."""
    return float(text.replace("−", "-").replace(" ", "").replace(",", ""))


def _places(page: str, says: str) -> list[int]:
    """Where the bracketed number of a claim begins in the page; words may be wrapped in another way there."""
    before, _, rest = says.rpartition("[")
    value, _, after = rest.partition("]")
    pattern = rf"{_words(before)}({_words(value)}){_words(after)}"
    return [match.start(1) for match in re.finditer(pattern, page)]


def _words(text: str) -> str:
    return r"\s+".join(re.escape(word) for word in re.split(r"\s+", text))
