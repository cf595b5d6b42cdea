"""Atari against a plain console: the same seed and actions in a bare emulator must give the same game."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from pqn.envs import make
from pqn.envs.adapters.atari import PROTOCOLS, AtariEnv, options
from pqn.envs.adapters.emulator_threads import usable_cores
from pqn.envs.catalog import ATARI_10, ATARI_57, ATARI_OTHERS, ATARI_TWO_PLAYERS
from pqn.errors import EnvError
from pqn.types import TimeStep

ale_py = pytest.importorskip("ale_py", reason="needs pip install -e '.[atari]'")
ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)


def play(env: AtariEnv, actions: np.ndarray, seeds: np.ndarray) -> list[TimeStep]:
    """Time steps of a reset and of actions [T, N]."""
    steps = [env.reset(seeds)]
    for action in actions:
        env.send(action[:, None].astype(np.int32))
        steps.append(env.recv())
    env.close()
    return steps


def random_actions(env: AtariEnv, steps: int) -> np.ndarray:
    return np.random.default_rng(7).integers(0, env.spec.num_actions, (steps, env.num_envs))


class Console:
    """One emulator played frame by frame, with the protocol written out; games start without no-ops."""

    def __init__(self, game: str, seed: int, chosen: dict):
        self.ale = ale_py.ALEInterface()
        self.ale.setInt("random_seed", seed)
        self.ale.setFloat("repeat_action_probability", chosen["sticky_actions"])
        self.ale.loadROM(ale_py.roms.get_rom_path(game))
        self.actions, self.chosen = self.ale.getMinimalActionSet(), chosen

    def start(self) -> None:
        self.ale.reset_game()
        if self.chosen["fire_reset"] and ale_py.Action.FIRE in self.actions:
            self.ale.act(ale_py.Action.FIRE)
        self.score, self.frames, self.lives, self.press_fire = 0, 0, self.ale.lives(), False
        self.stack = [np.zeros((84, 84))] * 3 + [shrink(self.ale.getScreenGrayscale())]

    def step(self, action: int) -> tuple[float, bool, bool]:
        """Reward, whether a life was lost, whether the game is over."""
        reward, screens = 0, []
        pressed = ale_py.Action.FIRE if self.press_fire else self.actions[action]
        for _ in range(4):
            reward += self.ale.act(pressed)
            self.frames += 1
            screens.append(self.ale.getScreenGrayscale())
            if self.ale.game_over():
                break
        lost = 0 < self.ale.lives() < self.lives
        self.lives = self.ale.lives()
        self.press_fire = self.chosen["episodic_life"] and self.chosen["fire_reset"] and lost
        self.press_fire = self.press_fire and ale_py.Action.FIRE in self.actions
        self.stack = [*self.stack[1:], shrink(np.maximum(*screens[-2:]))] if len(screens) == 4 else self.stack
        self.score += reward
        return reward, lost, self.ale.game_over()


def _areas(fine: int, coarse: int) -> np.ndarray:
    """Weights [coarse, fine] that average over areas: how much of each pixel lies in each larger one."""
    edges = np.arange(coarse + 1) * fine / coarse
    overlap = np.minimum(edges[1:, None], np.arange(fine) + 1) - np.maximum(edges[:-1, None], np.arange(fine))
    return np.clip(overlap, 0, None) * coarse / fine


ROWS, COLUMNS = _areas(210, 84), _areas(160, 84)


def shrink(screen: np.ndarray) -> np.ndarray:
    return ROWS @ screen @ COLUMNS.T


def same(ours: np.ndarray, console: list[np.ndarray]) -> bool:
    """Equal up to the rounding of the averages."""
    return bool(np.abs(ours[0] - np.stack(console)).max() <= 1.01)


@pytest.mark.parametrize(
    ("game", "protocol", "given", "length"),
    [
        ("breakout", "paper", {}, 330),  # lives, FIRE
        ("breakout", "paper", {"max_frames": 400}, 250),  # the limit falls into the middle of a life
        ("pong", "paper", {"max_frames": 240}, 150),  # no lives; negative rewards
        ("space_invaders", "dopamine", {}, 1000),  # sticky actions, whole games, rewards of 5 to 30
        ("freeway", "dopamine", {"max_frames": 400, "clip_rewards": False}, 150),  # a game without FIRE
    ],
)
def test_the_emulators_equal_a_plain_console(game, protocol, given, length):
    """Rewards, lost lives, game ends, scores, and every pixel of every observation."""
    seeds = np.array([3, 2**31 + 11])  # the second has a bit too many for ale-py
    env = make(f"atari:{game}", 2, protocol=protocol, noop_max=0, **given)
    chosen = env.options
    actions = random_actions(env, length)
    steps = play(env, actions, seeds)
    ended = np.stack([step.ended for step in steps])
    assert ended.sum(axis=0).min() >= 1 and not steps[0].ended.any()
    for i, seed in enumerate([3, 11]):
        console = Console(game, seed, chosen)
        console.start()
        assert same(steps[0].obs[i], console.stack)
        for t, step in enumerate(steps[1:]):
            reward, lost, over = console.step(actions[t, i])
            up = not over and console.frames >= chosen["max_frames"]
            terminated = over or (lost and chosen["episodic_life"])
            assert step.reward[i] == (np.sign(reward) if chosen["clip_rewards"] else reward)
            assert step.info["return"][i] == console.score
            assert step.ended[i] == (over or up)
            assert (step.terminated[i], step.truncated[i]) == (terminated, up and not terminated)
            assert step.first[i, 0] == (step.terminated[i] or step.truncated[i])
            if not over:
                assert same(step.final_obs[i], console.stack)
            if over or up:
                console.start()
            assert same(step.obs[i], console.stack)


def test_a_lost_life_ends_the_episode_but_not_the_game():
    """What ale-py's own `episodic_life` gets wrong: it starts a new game, and nobody sees the second life."""
    env = make("atari:breakout", 4)
    steps = play(env, random_actions(env, 500), np.arange(4))
    terminated, ended = (np.stack([getattr(step, name) for step in steps]) for name in ("terminated", "ended"))
    scores = np.stack([step.info["return"] for step in steps])
    assert (terminated | ~ended).all()
    games = ended.sum()
    lives = sum(terminated[: np.flatnonzero(ended[:, i])[-1] + 1, i].sum() for i in range(4))
    assert games >= 4 and lives == 5 * games
    for i in range(4):  # the score runs on over lost lives and starts anew with each game
        fell = np.flatnonzero(np.diff(scores[:, i]) < 0)
        assert ended[fell, i].all()
        assert scores[np.flatnonzero(terminated[:, i] & ~ended[:, i]) + 1, i].max() > 0


def test_stacks_go_on_unless_a_game_starts():
    """What `stacks` promises: three of four frames are those of the step before, lost lives included."""
    env = make("atari:breakout", 4)
    assert env.stacks
    steps = play(env, random_actions(env, 300), np.arange(4))
    obs, over, terminated = (
        np.stack([getattr(step, name) for step in steps]) for name in ("obs", "over", "terminated")
    )
    goes_on = (obs[1:, :, :, :-1] == obs[:-1, :, :, 1:]).all(axis=(2, 3, 4, 5))
    assert over.any() and (terminated & ~over).any()
    np.testing.assert_array_equal(goes_on, ~over[1:])


def test_fire_is_pressed_after_a_lost_life():
    """A player who never serves: with FIRE pressed for it the games end, without they never do."""
    idle = np.zeros((200, 2), int)
    served = play(make("atari:breakout", 2), idle, np.arange(2))
    assert sum(step.ended.sum() for step in served) >= 2
    waiting = play(make("atari:breakout", 2, fire_reset=False), idle, np.arange(2))
    assert sum(step.terminated.sum() for step in waiting) == 0


def test_environments_depend_on_their_seed_only():
    """Not on the pool, nor on the number of threads; sticky actions and no-ops included."""
    given = {"sticky_actions": 0.25}
    alone = make("atari:space_invaders", 1, threads=1, **given)
    actions = random_actions(alone, 150)
    first = play(alone, actions, np.array([5]))
    for num_envs, threads in ((3, 2), (8, 1)):
        seeds = np.arange(100, 100 + num_envs)
        seeds[-1] = 5
        pool = make("atari:space_invaders", num_envs, threads=threads, **given)
        steps = play(pool, np.repeat(actions, num_envs, axis=1), seeds)
        for one, many in zip(first, steps, strict=True):
            np.testing.assert_array_equal(one.obs[0], many.obs[-1])
            assert one.info["return"][0] == many.info["return"][-1]
        assert any((step.obs[0] != step.obs[-1]).any() for step in steps)  # another seed is another game


def test_resetting_again_starts_the_same_games():
    env = make("atari:pong", 2)
    seeds = np.array([0, 1], np.uint32)
    before = env.reset(seeds).obs.copy()
    for _ in range(30):
        env.send(np.full((2, 1), 2, np.int32))
        env.recv()
    np.testing.assert_array_equal(env.reset(seeds).obs, before)
    env.close()
    env.close()  # harmless


def test_the_contract():
    """Shapes and dtypes with eight environments; observations are ale-py's memory, not copies."""
    env = make("atari:ms_pacman", 8)
    assert isinstance(env, AtariEnv)
    assert env.spec.obs_shape == (4, 84, 84) and env.spec.num_actions == 9
    assert env.spec.max_episode_steps == 27_000 and env.spec.truncates
    for step in play(env, random_actions(env, 40), np.arange(8)):
        assert step.obs.shape == step.final_obs.shape == (8, 1, 4, 84, 84) and step.obs.dtype == np.uint8
        assert step.obs.flags.c_contiguous and not step.obs.flags.owndata
        assert step.reward.shape == (8,) and step.reward.dtype == np.float32 and np.abs(step.reward).max() <= 1
        assert step.first.shape == (8, 1)
        for name in ("first", "terminated", "truncated", "ended"):
            assert getattr(step, name).dtype == bool


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_part_of_a_protocol_can_be_overridden(protocol):
    env = make("atari:pong", 1, protocol=protocol)
    assert {name: env.options[name] for name in PROTOCOLS[protocol]} == PROTOCOLS[protocol]
    env.close()
    other = {"sticky_actions": 0.5, "episodic_life": False, "noop_max": 3, "fire_reset": False, "clip_rewards": False}
    other |= {"frame_skip": 2, "frame_stack": 3, "max_pool": False, "screen_size": 42, "max_frames": 1001}
    other |= {"full_action_space": True, "threads": 1}
    env = make("atari:pong", 1, protocol=protocol, **other)
    assert env.options == other | {"protocol": protocol, "backend": "ale"}
    assert set(env.options) == set(options(protocol))
    assert env.spec.obs_shape == (3, 42, 42) and env.spec.num_actions == 18 and env.spec.max_episode_steps == 501
    assert env.reset(np.zeros(1, int)).obs.shape == (1, 1, 3, 42, 42)
    env.close()


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("atari:pnog", {}, "There is no environment 'atari:pnog', did you mean atari:pong"),
        ("atari:SpaceInvaders", {}, "did you mean atari:space_invaders"),
        ("atari:joust", {}, "atari:joust needs two players"),
        ("atari:pong", {"protocol": "nature"}, "atari:pong: protocol must be one of paper, dopamine, not 'nature'"),
        ("atari:pong", {"sticky": 0.25}, "atari:pong has no option 'sticky'; its options are backend, clip_rewards"),
        ("atari:pong", {"sticky_actions": 1.5}, "sticky_actions must be a number from 0 to 1, not 1.5"),
        ("atari:pong", {"frame_skip": 0}, "frame_skip must be an integer of at least 1, not 0"),
        ("atari:pong", {"episodic_life": "yes"}, "episodic_life must be true or false, not 'yes'"),
        ("atari:pong", {"backend": "gym"}, "backend must be one of ale, envpool, not 'gym'"),
    ],
)
def test_a_mistake_gets_a_sentence(name, given, sentence):
    with pytest.raises(EnvError, match=sentence):
        make(name, 2, **given)


def test_wrong_actions_and_seeds_get_a_sentence():
    """In ale-py a wrong action makes `recv` wait for ever."""
    env = make("atari:pong", 2)
    with pytest.raises(EnvError, match=r"atari:pong has 2 environments; reset was given \(3,\) seeds"):
        env.reset(np.arange(3))
    env.reset(np.arange(2))
    for wrong in (-1, 6):
        with pytest.raises(EnvError, match=f"atari:pong has actions 0 to 5, not {wrong}"):
            env.send(np.array([[0], [wrong]]))
    env.close()


@pytest.mark.parametrize(("backend", "package", "extra"), [("ale", "ale_py", "atari"), ("envpool", "envpool", None)])
def test_a_missing_package_gets_a_sentence(monkeypatch, backend, package, extra):
    for module in (package, f"{package}.vector_env"):
        monkeypatch.setitem(sys.modules, module, None)
    command = f"pip install -e '.[{extra}]' in the checkout of pqn" if extra else f"pip install {package}"
    with pytest.raises(EnvError) as caught:
        make("atari:pong", 1, backend=backend)
    assert str(caught.value) == f"{package.replace('_', '-')} is not installed: {command}"


def test_the_games_are_those_of_ale_py():
    ours = (*ATARI_57, *ATARI_OTHERS, *ATARI_TWO_PLAYERS)
    assert len(ATARI_57) == 57 and len(set(ours)) == len(ours) and set(ATARI_10) < set(ATARI_57)
    assert sorted(ours) == sorted(ale_py.roms.get_all_rom_ids())


def test_threads_default_to_the_usable_cores():
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="scheduling classes of threads are Linux's")
def test_emulators_give_way_to_the_threads_that_feed_them():
    mine, before = os.sched_getscheduler(0), set(os.listdir("/proc/self/task"))
    env = make("atari:pong", 2, threads=2)
    env.reset(np.arange(2))
    theirs = [os.sched_getscheduler(int(tid)) for tid in set(os.listdir("/proc/self/task")) - before]
    env.close()
    assert theirs.count(os.SCHED_IDLE) >= 2  # others of this process may have started a thread meanwhile
    assert os.sched_getscheduler(0) == mine


def test_emulators_are_made_when_they_are_needed(monkeypatch):
    import ale_py.vector_env as vector

    made, real = [], vector.AtariVectorEnv
    monkeypatch.setattr(vector, "AtariVectorEnv", lambda game, n, **given: made.append(n) or real(game, n, **given))
    env = make("atari:pong", 3)
    assert made == [1]  # which says what actions there are
    for _ in range(2):
        env.reset(np.arange(3))
    assert made == [1, 3]
    env.close()
