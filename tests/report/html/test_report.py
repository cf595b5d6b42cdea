"""Reports: what a page says is what the run's files say, and no text of a run becomes markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from written_runs import GIF, write_run

from pqn.cli import options
from pqn.cli.main import main
from pqn.cli.train import _parser
from pqn.config import Config
from pqn.errors import RunError
from pqn.presets import preset
from pqn.report.html import commands, markup, write_report
from pqn.report.html.gather import find_runs, read_runs
from pqn.report.statistics import aggregate_curve, iqm, probability_of_improvement
from pqn.runs.metrics import curve, read_metrics

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&lt;${7*7}"


class Reader(HTMLParser):
    """Elements, texts, and the JSON of a page."""

    def __init__(self, page: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        inside = self.elements[-1][0] if self.elements else ""
        (self.scripts if inside == "script" and self.lasttag == "script" else self.texts).append(data)

    @property
    def charts(self) -> list[dict]:
        return next(json.loads(text) for text in self.scripts if text.startswith("["))

    def has(self, text: str) -> bool:
        return any(text in each for each in self.texts)


def report(*paths: Path, out: Path, **more: str) -> Reader:
    said: list[str] = []
    return Reader(write_report(list(paths), out, warn=said.append, **more).read_text())


def test_a_page_shows_what_the_files_say(tmp_path):
    run = write_run(tmp_path / "run", options={"learner.lam": 0.25})
    (run / "stability.json").write_text(json.dumps({"step": 5, "largest": {"value": 0.625, "off_policy": 0.5}}))
    (run / "agent.gif").write_bytes(GIF)
    page = report(run, out=tmp_path / "report.html")
    steps, values = curve(read_metrics(run / "metrics.jsonl"), "eval")
    main_chart = page.charts[0]["lines"][0]
    assert main_chart["steps"] == steps.tolist()
    np.testing.assert_allclose(main_chart["seeds"], values.T, rtol=1e-4)
    band = aggregate_curve(values, resamples=500)
    np.testing.assert_allclose(main_chart["center"], band.center, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(main_chart["low"], band.low, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(main_chart["high"], band.high, rtol=1e-4, atol=1e-4)
    assert page.has(f"{iqm(values[-1]):.3g}")  # the card
    for text in ("learner.lam", "0.25", "0.95", "0.10.2", "0123abc, with changes", "complete", "0.625", "pushes away"):
        assert page.has(text), text
    assert page.has("Greedy: win") and page.has("Return in training") and page.has("Exploration ε")
    sources = [attrs["src"] for tag, attrs in page.elements if tag == "img"]
    assert sources == [f"data:image/gif;base64,{base64.b64encode(GIF).decode()}"]
    assert not page.has("secret-host")  # a report is sent to others


def test_a_run_under_way_and_a_run_without_episodes(tmp_path):
    run = write_run(tmp_path / "run", complete=False)
    assert report(run, out=tmp_path / "a.html").has("not complete: 10.2 k of 299 k steps")
    (run / "metrics.jsonl").unlink()
    page = report(run, out=tmp_path / "b.html")
    assert page.has("No greedy episode has ended yet.") and page.has("No greedy evaluation was made yet.")
    assert page.charts == []


def test_runs_of_a_sweep_are_compared(tmp_path):
    for lam, height in ((0.5, 200.0), (0.0, 100.0)):
        write_run(tmp_path / "sweep" / f"lam-{lam}", height, options={"learner.lam": lam})
    page = report(tmp_path / "sweep", out=tmp_path / "report.html")
    low, high = (read_runs([tmp_path / "sweep" / f"lam-{lam}"], print)[0].final() for lam in (0.0, 0.5))
    assert probability_of_improvement(high, low) == 1.0
    assert page.has("1.00 ") and page.has("0.00 ") and page.has("[1.00, 1.00]")
    assert [line["place"] for line in page.charts[0]["lines"]] == [0, 1]
    assert page.charts[0]["lines"][0]["seeds"] == []  # in a comparison, single seeds would only confuse
    exact = [attrs["data-value"] for tag, attrs in page.elements if tag == "td" and "data-value" in attrs]
    assert repr(float(iqm(high))) in exact and repr(float(iqm(low))) in exact
    assert page.has("learner.lam")
    assert [path.name for path in find_runs([str(tmp_path / "sweep")])] == ["lam-0.0", "lam-0.5"]


def test_what_was_reached_stands_before_the_options(tmp_path):
    """A screen may not have room for all columns, and a table of runs without their scores says nothing."""
    runs = [write_run(tmp_path / f"lam-{lam}", options={"learner.lam": lam}) for lam in (0.0, 0.5)]
    report(*runs, out=tmp_path / "report.html")
    heads = column_names(tmp_path / "report.html")
    assert heads[:3] == ["run", "mean", "IQM"]  # one environment, which the charts name
    assert heads.index("over run") < heads.index("learner.lam") < heads.index("seeds")
    report(runs[0], write_run(tmp_path / "b", base="acrobot"), out=tmp_path / "two.html")
    assert column_names(tmp_path / "two.html")[:3] == ["run", "environment", "mean"]


def column_names(page: Path) -> list[str]:
    """Of the table of results."""
    head = page.read_text().partition("Results of all runs")[2].partition("</thead>")[0]
    return [re.sub(r"<[^>]*>", "", cell).strip(" ↕") for cell in re.findall(r"<th.*?</th>", head)]


def test_one_seed_has_no_interval(tmp_path):
    for lam, height in ((0.5, 200.0), (0.0, 100.0)):
        write_run(tmp_path / "sweep" / f"lam-{lam}", height, 1, {"learner.lam": lam})
    page = report(tmp_path / "sweep", out=tmp_path / "report.html")
    assert page.has("1.00 ") and page.has("0.00 ") and not page.has("[1.00, 1.00]") and not page.has("[nan")
    assert page.has("which a run of one seed cannot have")


def test_runs_in_different_environments_are_not_compared(tmp_path):
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b", base="acrobot")]
    page = report(*runs, out=tmp_path / "report.html")
    assert not page.has("Probability of improvement")
    assert [len(chart["lines"]) for chart in page.charts[:2]] == [1, 1]


# ------------------------------------------------------------------------------------------------------------- trust


def test_no_text_of_a_run_becomes_markup(tmp_path):
    """Whatever a run may bring: its directory, its environment's name and options, its command, versions, metrics."""
    name = HOSTILE.replace("/", "∕")
    hostile = {
        "command": [HOSTILE],
        "time": HOSTILE,
        "platform": HOSTILE,
        "device": HOSTILE,
        "git": {"commit": HOSTILE},
        "versions": {HOSTILE: HOSTILE},
    }
    given = {"env.name": f"my:{HOSTILE}", "env.kwargs": {"word": HOSTILE}}
    for place in ("a", "b"):
        run = write_run(tmp_path / place / name, options=given, environment=hostile)
        (run / f"{name}.gif").write_bytes(GIF)
        (run / "stability.json").write_text(json.dumps({"step": HOSTILE, "largest": {"value": HOSTILE}}))
        with (run / "metrics.jsonl").open("a") as file:
            row = {"kind": "eval", "update": 11, "step": 11264, "returns": [[1.0]] * 4}
            file.write(json.dumps(row | {f"info/{HOSTILE}": [1.0] * 4}) + "\n")
    for paths in ([tmp_path / "a" / name], [tmp_path / "a" / name, tmp_path / "b" / name]):
        page = report(*paths, out=tmp_path / "report.html", title=HOSTILE)
        tags = {tag for tag, _ in page.elements}
        allowed = "html head meta title style body header main footer nav section h1 h2 p a div span dl dt dd figure"
        allowed += " figcaption output button noscript table caption thead tbody tr th td code pre details summary img"
        assert tags <= {*allowed.split(), "script"}
        assert sum(tag == "script" for tag, _ in page.elements) == 2  # the data and ours
        for tag, attrs in page.elements:
            assert not [key for key in attrs if key.startswith("on") or key == "style"], (tag, attrs)
            assert tag != "img" or attrs["src"].startswith("data:image/gif;base64,")
        assert page.has("<img src=x onerror=alert(2)>")  # it is there, as text


def test_the_page_allows_its_own_script_and_nothing_else(tmp_path):
    text = write_report([write_run(tmp_path / "run")], tmp_path / "report.html").read_text()
    policy = next(
        attrs["content"] for tag, attrs in Reader(text).elements if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'" and "unsafe" not in policy and "http" not in policy.lower()
    for tag in ("script", "style"):
        inside = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL).group(1)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"
    outside = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert "http://" not in outside and "https://" not in outside


def test_markup_escapes_by_construction():
    assert markup.element("p", "<b>", markup.element("b", "&")) == "<p>&lt;b&gt;<b>&amp;</b></p>"
    assert markup.element("p", title='"><script>') == '<p title="&quot;&gt;&lt;script&gt;"></p>'
    assert "\u202e" not in markup.element("p", "abc\u202edef\x00")
    assert (
        "<" not in markup.data("x", '"</script>"')[len('<script type="application/json" id="x">') : -len("</script>")]
    )
    for bad in ({"onclick": "x"}, {"style": "x"}):
        with pytest.raises(ValueError, match="no attribute"):
            markup.element("p", **bad)
    with pytest.raises(ValueError, match="would end"):
        markup.script("x</script>")


def test_films_that_are_too_large_or_none_are_said_and_left_out(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run")
    (run / "fake.gif").write_bytes(b"<svg onload=alert(1)>")
    (run / "agent.mp4").write_bytes(b"\0\0\0\x18ftypmp42" + bytes(100))
    (run / "large.gif").write_bytes(GIF + bytes(300))
    (run / "link.gif").symlink_to("/etc/passwd")
    monkeypatch.setattr("pqn.report.html.media.MOST_BYTES", 200)
    said = []
    page = Reader(write_report([run], tmp_path / "r.html", warn=said.append).read_text())
    assert [tag for tag, _ in page.elements if tag in ("img", "video")] == ["video"]
    assert len(said) == 2 and "fake.gif is not in the report" in said[0] and "large.gif" in said[1]


# ----------------------------------------------------------------------------------------------------------- commands


@pytest.mark.parametrize(
    ("base", "given"),
    [
        ("cartpole", {}),
        ("cartpole", {"learner.lam": 0.0, "network.hidden": (16, 8), "learner.lr_decay": False, "total_steps": 4096}),
        ("cartpole-rnn", {"env.kwargs": {"gravity": 5.5, "mode": "1", "word": "a b;$(rm)", "flag": True}}),
        ("", {"env.name": "FourRooms-misc", "network.hidden": (), "learner.gamma": 1e-5}),
        ("", {"env.name": "my_env:make; echo"}),
    ],
)
def test_the_command_trains_the_same_once_more(base, given, tmp_path):
    run = read_runs([write_run(tmp_path / "run", base=base, options=given)], print)[0]
    words = shlex.split(commands.reproduce(run))
    assert words[:2] == ["pqn", "train"]
    name, rest = _parser(Config()).find_name(words[2:])
    defaults = Config() if name is None else preset(name)
    assert options.apply(defaults, _parser(defaults, name).parse(rest)) == run.config


def test_commands_quote_what_they_are_given(tmp_path):
    run = read_runs([write_run(tmp_path / "a b;$(x)")], print)[0]
    assert shlex.split(commands.resume(run)) == ["pqn", "resume", str(tmp_path / "a b;$(x)")]
    assert shlex.split(commands.evaluate(run))[:3] == ["pqn", "eval", str(tmp_path / "a b;$(x)")]
    assert shlex.split(commands.report(["-x"]))[2] == "./-x"
    given = read_runs([write_run(tmp_path / "c", options={"env.name": "python:Mine"})], print)[0]
    assert commands.reproduce(given) is None


def test_the_command_and_its_mistakes(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "run")
    assert main(["report", "run"]) == 0 and capsys.readouterr().out == "report.html\n"
    (tmp_path / "empty").mkdir()
    for words, sentence in [
        (["run", "-o", "report.pdf"], "the name of a report must end in .html"),
        (["nowhere"], "nowhere is not a run directory: it does not exist"),
        (["empty"], "empty is not a run directory and holds none"),
        (["run", "-o", "run/config.json/report.html"], "cannot write the report"),
    ]:
        assert main(["report", *words]) == 2
        said = capsys.readouterr().err
        assert sentence in said and said.count("\n") == 1, said


def test_damaged_rows_are_one_sentence(tmp_path):
    run = write_run(tmp_path / "run")
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "update": 12, "step": 12, "episodes": [1], "return_sum": [1], "loss": ["x"]}\n')
    with pytest.raises(RunError, match="rows of this run"):
        write_report([run], tmp_path / "r.html")
    with pytest.raises(RunError, match="at most 200"):
        find_runs([str(write_run(tmp_path / "many" / f"{i}").parent) for i in range(1)] + [f"x{i}" for i in range(200)])


def test_a_report_of_one_run_or_of_none(finished_run, tmp_path):
    one, same = (write_report(runs, tmp_path / "a.html").read_text() for runs in (finished_run, [finished_run.run]))
    assert one == same
    with pytest.raises(RunError, match="name one at least"):
        write_report([], tmp_path / "b.html")
