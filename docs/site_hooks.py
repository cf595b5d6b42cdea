"""What the documentation's site adds to plain Markdown. MkDocs calls the functions whose names begin with `on_`.

- Pages outside of docs/ (results, CONTRIBUTING.md, …) become pages of the site.
- Links to files of the repository lead to copies in the site; [`name`](file.py) leads to the line that defines it.
- The reference of the command line is made from the parsers, that of the presets from the presets.
- Equations become MathML, which browsers show without a script.
"""

from __future__ import annotations

import ast
import html
import posixpath
import re
import sys
from collections.abc import Callable
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

# Pages that are not in docs/: path in the repository -> path in the site. README.md's place is taken by docs/README.md.
PAGES = {
    "results/README.md": "results.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "README.md": "README.md",
}
LINK = re.compile(r"(?P<label>!?\[(?:[^\[\]]|\[[^\]]*\])*\])\((?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)")
FENCE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)
SHOWN_AS_CODE = {".py": "python", ".toml": "toml", ".txt": "text", ".cff": "yaml"}


# ------------------------------------------------------------------------------------------------------------- pages


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages and files that docs/ does not hold."""
    texts = {f"docs/{file.src_uri}": file.content_string for file in files.documentation_pages()}
    added = {path: (ROOT / path).read_text() for path in PAGES if path != "README.md"}
    for path, text in added.items():
        files.append(File.generated(config, PAGES[path], content=text))
    wanted = {target for path, text in (texts | added).items() for target in _targets(path, text)}
    for path in sorted(wanted):
        _add_file(files, config, path)
    files.append(File.generated(config, "reference/cli.md", content=command_line()))
    files.append(File.generated(config, "reference/presets.md", content=presets()))
    return files


def _add_file(files: Files, config: MkDocsConfig, path: str) -> None:
    """A file of the repository that some page links to: code as a page with numbered lines, others as they are."""
    found, place = ROOT / path, site_path(path)
    if files.get_file_from_path(place) is not None or not found.exists():
        return
    if found.is_dir():
        names = sorted(
            each.name for each in found.iterdir() if each.is_file() and not each.name.startswith((".", "__"))
        )
        for name in names:
            _add_file(files, config, f"{path}/{name}")
        listed = "\n".join(f"- [{name}]({_relative(site_path(f'{path}/{name}'), place)})" for name in names)
        files.append(File.generated(config, place, content=_unlisted(f"# {path}\n\n{listed}\n")))
    elif found.suffix in SHOWN_AS_CODE:
        code = f'```{SHOWN_AS_CODE[found.suffix]} linenums="1"\n{found.read_text()}\n```\n'
        files.append(File.generated(config, place, content=_unlisted(f"# {path}\n\n{code}")))
    else:
        files.append(File.generated(config, place, abs_src_path=str(found)))


def _unlisted(text: str) -> str:
    """A page that the search leaves out."""
    return f"---\nsearch: {{exclude: true}}\nhide: [toc]\n---\n\n{text}"


def site_path(path: str) -> str:
    """Where a path of the repository is in the site."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if (ROOT / path).is_dir():
        return f"files/{path}/index.md"
    return f"files/{path}.md" if Path(path).suffix in SHOWN_AS_CODE else f"files/{path}"


# ------------------------------------------------------------------------------------------------------------- links


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrites links to files of the repository."""
    places = {place: path for path, place in PAGES.items()}
    here = page.file.src_uri
    if here.startswith(("files/", "reference/c", "reference/p")):
        return markdown
    path = f"docs/{here}" if here == "README.md" else places.get(here, f"docs/{here}")
    return _outside_code(markdown, lambda text: LINK.sub(lambda found: _rewrite(found, path, here), text))


def _rewrite(found: re.Match[str], path: str, here: str) -> str:
    target = _resolve(path, found["target"])
    if target is None:
        return found[0]
    line = None if found["anchor"] else _line(found["label"], target)
    mark = f'{{ data-line="{line}" }}' if line else ""  # MkDocs cannot see the anchors of lines: see `on_page_content`
    return f"{found['label']}({_relative(site_path(target), here)}{found['anchor'] or ''}){mark}"


def _line(label: str, target: str) -> int | None:
    """The line that defines `Class.name` or `name`; None where the label is none of a definition."""
    named = re.fullmatch(r"\[`([\w.]+)`\]", label)
    if not named or not target.endswith(".py") or named[1].endswith(".py"):
        return None
    return definition((ROOT / target).read_text(), named[1])


def definition(code: str, name: str) -> int | None:
    """The line on which a class, a function, a method or a module's name is defined."""
    body: list[ast.stmt] = ast.parse(code).body
    line = None
    for word in name.split("."):
        found = next((node for node in body if word in _names(node)), None)
        if found is None:
            return line
        line, body = found.lineno, getattr(found, "body", [])
    return line


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _targets(path: str, text: str) -> set[str]:
    """The files of the repository, outside of docs/, that a page links to."""
    found: set[str] = set()
    _outside_code(
        text,
        lambda part: found.update(filter(None, (_resolve(path, m["target"]) for m in LINK.finditer(part)))) or part,
    )
    return {target for target in found if not target.startswith("docs/") and target not in PAGES}


def _resolve(path: str, target: str) -> str | None:
    """A relative link as a path of the repository; None for an address, or an anchor of the same page."""
    if not target or ":" in target or target.startswith("/"):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def _relative(place: str, here: str) -> str:
    return posixpath.relpath(place, posixpath.dirname(here) or ".")


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    parts = FENCE.split(text)
    return "".join(part if index % 2 else change(part) for index, part in enumerate(parts))


# --------------------------------------------------------------------------------------------------------- equations


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Makes MathML of equations, and completes links to lines."""
    content = re.sub(r'<a data-line="(\d+)" href="([^"#]*)"', r'<a href="\2#__codelineno-0-\1"', content)
    content = re.sub(
        r'<span class="arithmatex">\\\((.*?)\\\)</span>', lambda m: _math(m[1], "inline"), content, flags=re.S
    )
    block = r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>'
    return re.sub(block, lambda m: f'<div class="equation">{_math(m[1], "block")}</div>', content, flags=re.S)


def _math(latex: str, display: str) -> str:
    made = convert(html.unescape(latex).strip(), display=display)
    if "\\" in made:
        raise PluginError(f"this equation has a command that cannot be typeset: {latex}")
    return made


# --------------------------------------------------------------------------------------------------------- reference


def command_line() -> str:
    """Every command with its options, as its own parser has them."""
    from pqn.cli.main import commands

    text = "# The command line\n\nMade from the parsers of the commands; `pqn COMMAND --help` prints the same.\n"
    for name, summary in commands().items():
        text += f"\n## pqn {name}\n\n{summary[0].upper()}{summary[1:]}.\n"
        for words in _helped(name):
            text += _parser_page(words)
    return text


def _helped(name: str) -> list[list[str]]:
    """The words that reach each parser of a command."""
    if name != "theory":
        return [[name]]
    from pqn.cli.theory import EXPERIMENTS

    return [[name, experiment] for experiment in EXPERIMENTS if experiment in ("baird", "lemma", "deepsea")]


def _parser_page(words: list[str]) -> str:
    parser = recorded_parser(words)
    text = f"\n### pqn {' '.join(words)}\n" if len(words) > 1 else ""
    text += f"\n```text\n{' '.join(parser.format_usage().removeprefix('usage: ').split())}\n```\n"
    if (parser.description or "").startswith("presets: "):
        text += "\n[Presets](presets.md) lists the presets. `--help` after a preset's name shows its values.\n"
    elif parser.description:
        text += "\n" + _cell(parser.description).replace("\n", " ") + "\n"
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if action.dest != "help"]
        if not actions:
            continue
        title = {"positional arguments": "Arguments", "options": "Options"}.get(group.title or "", f"`{group.title}.`")
        text += f"\n**{title}** {_cell(group.description or '')}\n\n| option | meaning |\n|---|---|\n"
        for action in actions:
            names = ", ".join(f"`{name}`" for name in action.option_strings) or f"`{action.metavar or action.dest}`"
            value = f" `{action.metavar}`".replace("|", "\\|") if action.option_strings and action.metavar else ""
            text += f"| {names}{value} | {_cell((action.help or '').replace('%%', '%'))} |\n"
    return text


def recorded_parser(words: list[str]):
    """The parser that a command makes when its help is asked for."""
    import importlib

    from pqn.cli import options

    recorded: list[options.Parser] = []

    class Recorded(options.Parser):
        def print_help(self, file: object = None) -> None:
            recorded.append(self)

    before, options.Parser = options.Parser, Recorded
    try:
        importlib.import_module(f"pqn.cli.{words[0]}").run([*words[1:], "--help"])
    except options.Helped:
        pass
    finally:
        options.Parser = before
    return recorded[-1]


def presets() -> str:
    """Every preset with its source and its differences from it."""
    from pqn.presets import PRESETS

    text = (
        "# Presets\n\nMade from the presets. `pqn train PRESET --help` shows all options with a preset's values.\n"
        "\n| preset | environment | steps | what | numbers from | different from it |\n|---|---|---|---|---|---|\n"
    )
    for name, entry in PRESETS.items():
        cells = (f"`{name}`", f"`{entry.config.env.name}`", f"{entry.config.total_steps:.0e}", entry.description)
        text += f"| {' | '.join(map(_cell, cells))} | {_cell(entry.source)} | {_cell('; '.join(entry.deviations))} |\n"
    return text


def _cell(text: str) -> str:
    """Text in a cell of a table, in which nothing is markup but code."""
    parts = re.split(r"(`[^`]*`)", text.replace("|", "\\|"))
    escaped = [part if index % 2 else re.sub(r"([<>*_\[\]$])", r"\\\1", part) for index, part in enumerate(parts)]
    return "".join(escaped)
