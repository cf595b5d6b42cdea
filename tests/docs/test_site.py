"""The documentation's site: what docs/site_hooks.py adds to plain pages. `make docs` builds it all."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType, SimpleNamespace

import pytest
import yaml
from documented import ROOT

from pqn.cli.main import commands, main
from pqn.presets import PRESETS


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "site_hooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


def test_every_page_is_in_the_menu():
    """A page that is not in `nav` of mkdocs.yml is found by nobody: add a line there."""

    class Loader(yaml.SafeLoader):
        """Reads mkdocs.yml without making the objects that it names."""

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
    nav = str(yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)["nav"])
    for page in (ROOT / "docs").rglob("*.md"):
        assert f"'{page.relative_to(ROOT / 'docs')}'" in nav, page


def test_the_reference_of_the_command_line_is_what_the_commands_say(hooks, capsys):
    page = hooks.command_line()
    for name in commands():
        words = [name, "baird"] if name == "theory" else [name]
        assert f"\n## pqn {name}\n" in page
        main([*words, "--help"])
        options = set(re.findall(r"^ +(?:-\w \S+, )?(--[a-z][\w.-]*)", capsys.readouterr().out, re.MULTILINE))
        assert options or name in ("envs", "presets")
        for option in options:
            assert f"`{option}`" in page, (name, option)


def test_every_preset_is_in_the_reference(hooks):
    page = hooks.presets()
    assert all(f"| `{name}` |" in page for name in PRESETS)


def test_names_lead_to_the_lines_that_define_them(hooks):
    code = (ROOT / "src/pqn/algorithms/pqn.py").read_text()
    lines = code.splitlines()
    assert lines[hooks.definition(code, "PQN") - 1].startswith("class PQN(")
    assert lines[hooks.definition(code, "PQN.loss") - 1].startswith("    def loss(")
    assert lines[hooks.definition(code, "taken") - 1].startswith("def taken(")
    assert hooks.definition(code, "nothing") is None
    page = SimpleNamespace(file=SimpleNamespace(src_uri="algorithms/pqn.md"))
    text = "[`PQN.loss`](../../src/pqn/algorithms/pqn.py) [data](../../results/README.md#a) [x](../usage.md)"
    line = hooks.definition(code, "PQN.loss")
    assert hooks.on_page_markdown(f"{text}\n```sh\n{text}\n```", page, None, None) == (
        f'[`PQN.loss`](../files/src/pqn/algorithms/pqn.py.md){{ data-line="{line}" }} '
        f"[data](../results.md#a) [x](../usage.md)\n```sh\n{text}\n```"
    )
    made = hooks.on_page_content('<a data-line="7" href="../x.py.html">x</a>', page, None, None)
    assert made == '<a href="../x.py.html#__codelineno-0-7">x</a>'


def test_equations_become_mathml(hooks):
    made = hooks.on_page_content(r'<span class="arithmatex">\(\gamma &lt; 1\)</span>', None, None, None)
    assert made.startswith("<math") and "arithmatex" not in made and "&#x0003C;" in made
    found = 0
    for page in (ROOT / "docs").rglob("*.md"):
        for equation in re.findall(r"\$\$(.+?)\$\$", page.read_text(), re.DOTALL):
            assert "<math" in hooks._math(equation, "block")
            found += 1
    assert found >= 8
    with pytest.raises(Exception, match="cannot be typeset"):
        hooks._math(r"\nonsense x", "block")


# ------------------------------------------------------------------------------------------------------ in a browser


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The site, built and served."""
    site = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.mark.browser
def test_the_site_loads_nothing_from_elsewhere_and_can_be_searched(address):
    from browsing import opened_browser

    with opened_browser() as browser:
        page = browser.new_page()
        said: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        for name in ("index", "algorithm", "algorithms/pqn", "reference/cli", "reference/api", "theory", "results"):
            page.goto(f"{address}{name}.html")
        assert [url for url in asked if not url.startswith((address, "data:"))] == []
        assert said == []
        page.goto(f"{address}algorithm.html")
        sizes = page.evaluate(
            "() => [...document.querySelectorAll('math')].map((m) => m.getBoundingClientRect().width)"
        )
        assert len(sizes) >= 6 and min(sizes) > 4
        page.locator("a:has(code:text-is('lambda_returns'))").first.click()
        page.wait_for_url("**/returns.py.html#__codelineno-0-*")
        assert "def lambda_returns" in page.locator("code").first.inner_text()
        page.wait_for_load_state("networkidle")  # a page that is still loading closes the search again
        page.locator("input[name=query]").click()
        page.keyboard.type("bootstrap")
        page.wait_for_selector(".md-search-result__item", state="attached", timeout=20_000)
