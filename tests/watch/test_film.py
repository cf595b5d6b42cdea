"""Films: the episodes of `pqn eval`, drawn; the same bytes each time; one sentence for what cannot be filmed."""

from __future__ import annotations

import shutil
import sys
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import tiny
from PIL import Image, ImageSequence

from pqn.cli.main import main
from pqn.envs.contract import Outcome
from pqn.errors import CheckpointError, ConfigError, EnvError, PqnError
from pqn.play import evaluate_run
from pqn.types import EnvSpec
from pqn.watch.bars import WIDTH
from pqn.watch.compose import CAPTION, GAP
from pqn.watch.film import FilmOptions, make_film


def ignore(sentence: str) -> None:
    pass


def frames(path: Path) -> list[np.ndarray]:
    with Image.open(path) as film:
        return [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(film)]


@pytest.fixture(scope="module")
def film(finished_run, tmp_path_factory):
    """Four episodes of the run's second seed."""
    options = FilmOptions(grid=(2, 2), seed=3, train_seed=1)
    return make_film(finished_run.run, tmp_path_factory.mktemp("film") / "agent.gif", options)


def test_the_episodes_are_those_of_an_evaluation(film, finished_run):
    played = evaluate_run(finished_run.run, 4, seed=3)
    np.testing.assert_array_equal(film.returns, played["returns"][1])
    assert not np.array_equal(played["returns"][0], played["returns"][1])  # or any seed would do
    np.testing.assert_array_equal(film.lengths, film.returns)  # CartPole pays 1 a step
    assert film.step == played["step"] and film.env == "CartPole-v1"


def test_every_step_is_a_frame_and_ended_episodes_stand_still(film):
    drawn = frames(film.path)
    height, width = drawn[0].shape[:2]
    assert (height, width) == (2 * (260 + CAPTION) + GAP, 2 * 400 + GAP)
    first = int(np.argmin(film.lengths))
    row, column = divmod(first, 2)
    top, left = row * (260 + CAPTION + GAP), column * (400 + GAP)
    cells = [frame[top : top + 260 + CAPTION, left : left + 400].astype(int) for frame in drawn]
    end = int(film.lengths[first])
    assert np.abs(cells[end - 2] - cells[end - 1]).max() > 50  # moves to its last step
    assert np.abs(cells[end] - cells[-1]).max() < 40  # and stands still from then on, but for the GIF's palettes


def test_a_film_is_reproducible(film, finished_run, tmp_path):
    short = {"max_steps": 4, "train_seed": 1}
    paths = [tmp_path / f"{name}.gif" for name in "abc"]
    for path, seed in zip(paths, (3, 3, 4), strict=True):
        make_film(finished_run.run, path, FilmOptions(seed=seed, **short))
    assert paths[0].read_bytes() == paths[1].read_bytes() != paths[2].read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.gif", "b.gif", "c.gif"]  # nothing temporary is left


def test_the_command_prints_returns_and_shows_q_values(finished_run, tmp_path, capsys):
    out = tmp_path / "new" / "q.gif"
    assert main(["video", finished_run.run.__fspath__(), "-o", str(out), "--q", "--max-steps", "2", "--fps", "5"]) == 0
    said = capsys.readouterr().out
    assert "CartPole-v1, 640 training steps" in said and "unfinished after 2 steps" in said and str(out) in said
    with Image.open(out) as film:
        assert film.width == 400 + WIDTH and film.info["duration"] == 200
    chosen = frames(out)[0][CAPTION:, 400:]
    orange = np.abs(chosen.astype(int) - (0xD5, 0x5E, 0x00)).sum(axis=-1) < 60
    assert orange.sum() > 500  # the bar of the action that is taken


def test_mp4(finished_run, tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    with warnings.catch_warnings(record=True, action="always") as caught:
        film = make_film(finished_run.run, tmp_path / "agent.mp4", FilmOptions(max_steps=5, fps=10))
    assert not [warning for warning in caught if "fork" in str(warning.message)]
    with warnings.catch_warnings(action="ignore"):
        count, seconds = ffmpeg.count_frames_and_secs(str(film.path))
    assert (count, seconds) == (15, pytest.approx(1.5))  # and the last frame for a second


class Lights:
    """Brightness rises by one step each time; the fourth ends the episode."""

    spec = EnvSpec("lights", (4,), np.dtype("float32"), 2, max_episode_steps=10)

    def reset(self, key):
        return jnp.int32(0), jnp.zeros(4)

    def step(self, key, state, action):
        state = state + 1
        return Outcome(state, jnp.full(4, state.astype(jnp.float32)), jnp.float32(1), state >= 4)

    def render(self, state):
        return np.full((2, 3, 3), 50 * int(state), np.uint8)


def test_an_environment_of_ones_own_draws_itself_to_the_end(finished_run, tmp_path):
    film = make_film(finished_run.run, tmp_path / "a.gif", FilmOptions(fps=4), env=Lights(), warn=ignore)
    assert film.returns.tolist() == [4.0]
    drawn = [int(frame[-5, 5, 0]) for frame in frames(film.path)]
    assert drawn[:4] == pytest.approx([0, 50, 100, 150], abs=4)
    faded = 255 - 0.55 * (255 - 200)  # the state that ended the episode, and not the start of the next
    assert drawn[4] == pytest.approx(faded, abs=4)
    assert frames(film.path)[0].shape[1] == 360  # pixels are enlarged


class Spoken(Lights):
    def render(self, state):
        return f"brightness {int(state)}"


def test_an_environment_may_be_shown_as_text(finished_run, tmp_path):
    options = FilmOptions(grid=(1, 2))
    film = make_film(finished_run.run, tmp_path / "a.txt", options, env=Spoken(), warn=ignore)
    assert film.text == film.path.read_text()
    assert film.text.count("--- episode 1, step 1\nbrightness 0\n") == 1
    assert film.text.index("brightness 4\n=== ended: return 4") < film.text.index("episode 2, step 1")
    assert film.text.count("===") == 2


def test_what_is_no_picture(finished_run, tmp_path):
    class Flat(Lights):
        def render(self, state):
            return np.zeros((2, 3), np.uint8)

    with pytest.raises(EnvError, match=r"render of lights returned uint8 of shape \(2, 3\); a picture is"):
        make_film(finished_run.run, tmp_path / "a.gif", env=Flat(), warn=ignore)
    assert not list(tmp_path.iterdir())


def test_a_simulator_draws_itself(finished_run, tmp_path):
    name = "gymnasium:CartPole-v1"
    film = make_film(finished_run.run, tmp_path / "a.gif", FilmOptions(grid=(1, 2)), env=name, warn=ignore)
    played = evaluate_run(finished_run.run, 2, env=name, warn=ignore)
    np.testing.assert_array_equal(film.returns, played["returns"][0])
    drawn = frames(film.path)
    assert drawn[0].shape == (400 + CAPTION, 2 * 600 + GAP, 3)
    assert (drawn[0][CAPTION:, :600].min(axis=-1) < 100).sum() > 500  # a dark cart


# ---- one sentence ----


@pytest.fixture(scope="module")
def without_pictures(tmp_path_factory):
    from pqn.progress import Progress
    from pqn.training import train

    config = tiny({"env.name": "probe:match", "eval.count": 0}, total_steps=64)
    return train(config, out=tmp_path_factory.mktemp("runs") / "probe", progress=Progress(quiet=True)).run


def sentence(words: list[str], capsys) -> str:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and not captured.out
    return captured.err


def test_an_environment_without_pictures(without_pictures, capsys, tmp_path):
    said = sentence(["video", str(without_pictures), "-o", str(tmp_path / "a.gif")], capsys)
    assert "probe:match has no pictures: give it a method `render`" in said


def test_without_ffmpeg(finished_run, capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    run = tmp_path / "run"
    shutil.copytree(finished_run.run, run)
    said = sentence(["video", str(run), "-o", str(tmp_path / "a.mp4")], capsys)
    assert "MP4 needs imageio-ffmpeg: pip install -e '.[video]'" in said and "-o a.gif" in said
    assert main(["video", str(run), "--max-steps", "1"]) == 0  # a GIF needs nothing
    assert (run / "agent.gif").read_bytes().startswith(b"GIF8")


def test_a_checkpoint_that_is_not_there(finished_run, capsys, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished_run.run, run)
    shutil.rmtree(run / "checkpoints")
    assert "there is no checkpoint in" in sentence(["video", str(run)], capsys)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-o", "agent.avi"], "the name must end in .mp4, .gif or .txt"),
        (["-o", "agent.txt"], "CartPole-v1 is shown as pictures: use -o with .gif or .mp4"),
        (["--train-seed", "7"], "trained seeds 0 to 1, not 7"),
        (["--grid", "2"], "'2' is not of the form 2x3"),
        (["--grid", "0x3"], "'0x3' is not of the form 2x3"),
        (["--grid", "20x20"], "of at most 100 episodes"),
        (["-o", "/dev/null/a.gif"], "cannot write /dev/null/a.gif: file exists"),
    ],
)
def test_mistakes(options, said, finished_run, capsys):
    assert said in sentence(["video", str(finished_run.run), *options], capsys)


def test_text_needs_a_text_file(finished_run, tmp_path):
    from pqn.watch.writers import check_output

    with pytest.raises(PqnError, match=r"hanabi:2 is shown as a text: use -o with a name that ends in \.txt"):
        check_output(tmp_path / "a.gif", True, "hanabi:2")


def test_memory_and_exploration_are_those_of_an_evaluation():
    """The same steps, whether they are drawn or not; here with an agent that remembers and explores."""
    import jax

    from pqn.algorithms import make_algorithm
    from pqn.envs import registry
    from pqn.programs.evaluation import evaluate
    from pqn.watch.episodes import Player, play

    env = registry.make("CartPole-v1", 3)
    config = tiny({"network.memory": "gru", "network.memory_size": 8, "network.last_action": True})
    actor = make_algorithm(config, env.spec).actor
    policy, key = actor.init(jax.random.key(5)), jax.random.key(6)
    drawn = list(play(env, Player(actor, policy, key, 0.3, 40)))
    played = jax.jit(lambda policy, key: evaluate(env, actor, policy, key, 0.3, 40))(policy, key)
    np.testing.assert_array_equal(drawn[-1].result.known().ret, played.ret)
    np.testing.assert_array_equal(drawn[-1].result.finished, played.finished)
    assert len(set(np.asarray(played.ret).tolist())) > 1  # three different games
    before, after = drawn[0].after, drawn[1].views
    assert before is not None
    for one, other in zip(before, after, strict=True):  # what a step leads to is where the next one begins
        np.testing.assert_array_equal(one.obs, other.obs)
        assert one.state.x == other.state.x


def test_a_film_of_another_checkpoint(finished_run, tmp_path):
    """The one that is named, and a sentence where it is not there."""
    checkpoints = sorted((finished_run.run / "checkpoints").glob("step-*"))
    updates = int(checkpoints[0].name.removeprefix("step-"))
    steps = updates * 64  # of `tiny`: eight environments, eight steps
    early = make_film(finished_run.run, tmp_path / "early.gif", FilmOptions(max_steps=2), checkpoint=steps)
    last = make_film(finished_run.run, tmp_path / "last.gif", FilmOptions(max_steps=2))
    assert early.step == steps < last.step
    with pytest.raises(CheckpointError, match=r"has no checkpoint of \d+ steps"):
        make_film(finished_run.run, tmp_path / "none.gif", checkpoint=steps + 1)


@pytest.mark.parametrize(
    "options",
    [
        {"grid": (0, 2)},
        {"grid": (2,)},
        {"grid": (50, 50)},
        {"epsilon": 2},
        {"fps": 0},
        {"seed": -1},
        {"max_steps": "9"},
    ],
    ids=str,
)
def test_options_of_a_film(options):
    with pytest.raises(ConfigError, match=rf"^{next(iter(options))} is "):
        FilmOptions(**options)
