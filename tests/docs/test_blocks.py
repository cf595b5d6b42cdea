"""Every code block and every command of the documentation is executed, or says why it is not."""

from __future__ import annotations

import re
import tomllib

import pytest
from documented import PAGES, ROOT, blocks, check_command, name_of, shown

# Pages whose blocks belong together and are executed in order, as a reader would do it.
TUTORIALS = [ROOT / "docs" / "quickstart.md", *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]
OTHERS = [page for page in PAGES if page not in TUTORIALS]
# Blocks of Python that another test executes.
ELSEWHERE = {"README.md": "tests/test_docs.py", "docs/python.md": "tests/test_docs.py"}
COMMAND = re.compile(r"^\s*(?:\$ )?(?:pqn|pip|make|python) ", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_block_is_exempt_without_a_reason(page):
    for block in blocks(page):
        known = ("python", "sh", "toml", "text", "")
        assert block.language in known, f"{block}: no test knows the language {block.language}"
        if block.language == "toml":
            assert tomllib.loads(block.text), f"{block} is empty"
        if block.language in ("text", ""):
            assert not COMMAND.search(block.text), f"{block} holds a command: call it `sh`"
        if block.language == "python" and name_of(page) in ELSEWHERE:
            assert block.mark is None, f"{block} is executed by {ELSEWHERE[name_of(page)]}"
    marks = re.findall(r"^<!-- tests:.*", shown(page), re.MULTILINE)
    marked = [block for block in blocks(page) if block.mark]
    assert len(marks) == len(marked), "a mark has the form <!-- tests: slow: reason --> and stands above a block"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_other_programs_are_called_as_they_are(page):
    """`make`, `pip` and measurements are not executed by tests; what they name exists."""
    for block in blocks(page):
        for command in block.commands if block.language == "sh" else []:
            words = command.split()
            if words[0] != "pqn":
                check_command([word.strip("'\"") for word in words], block)


@pytest.mark.parametrize("page", TUTORIALS, ids=name_of)
def test_a_tutorial_runs_from_top_to_bottom(page, session):
    executed = [block for block in blocks(page) if block.language in ("python", "sh") and not block.mark]
    assert len(executed) >= 3
    for block in executed:
        session.run(block)


def of_page(page) -> list:
    """What `make test-slow` executes of a page: of tutorials, the blocks that the test above leaves out."""
    found = [block for block in blocks(page) if block.language in ("python", "sh") and block.mark != "skip"]
    if page in TUTORIALS:
        return [block for block in found if block.mark == "slow"]
    return [block for block in found if block.language != "python" or name_of(page) not in ELSEWHERE]


SLOW = [block for page in PAGES for block in of_page(page)]


@pytest.mark.slow
@pytest.mark.parametrize("block", SLOW, ids=str)
def test_a_block_runs(block, session):
    session.write_files(block.page, block.line)
    session.run(block)
