"""Craftax: optimistic resets (on a probe, without craftax), and the adapter (with it)."""

import importlib
import importlib.util
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pqn.arrays import strong
from pqn.envs import check_env, make
from pqn.envs.adapters import craftax
from pqn.envs.autoreset import Autoreset, AutoresetState
from pqn.envs.catalog import FAMILIES
from pqn.envs.contract import JaxEnv, Outcome
from pqn.envs.pooled import RESETS, PooledReset
from pqn.envs.probe import Counter, Endless, Masked
from pqn.errors import EnvError
from pqn.types import EnvSpec

needs_craftax = pytest.mark.skipif(
    importlib.util.find_spec("craftax") is None,
    reason="craftax is not installed: pip install -e '.[craftax]'",
)
CLASSIC = "Craftax-Classic-Symbolic-v1"
HURRY = {"xla_backend_optimization_level": 0}  # a handful of steps: the compiler's time is most of it


def run(env, steps, seed=0):
    """Time-major numpy arrays: the observation acted on, and the time step it led to; actions are random."""

    def step(carry, key):
        state, before = carry
        action = jax.random.randint(key, (env.num_envs, env.spec.num_agents), 0, env.spec.num_actions)
        state, timestep = env.step(state, action)
        return (state, timestep.obs), (before, timestep)

    def whole(key):
        state, timestep = env.reset(key)
        return jax.lax.scan(step, (state, timestep.obs), jax.random.split(key, steps))[1]

    return jax.device_get(jax.jit(whole, compiler_options=HURRY)(jax.random.key(seed)))


# ---- the pool of fresh states, without craftax ----


@pytest.mark.parametrize(("ratio", "every"), [(1, 1), (2, 1), (3, 1), (100, 1), (3, 2), (16, 7)])
def test_every_transition_is_real_whatever_the_ratio(ratio, every):
    probe = Counter(longest=4)
    before, steps = run(PooledReset(probe, 7, ratio, every), 80)
    successor, reward, terminated, truncated = probe.expected(before[:, :, 0])
    assert terminated.any() and truncated.any()
    np.testing.assert_array_equal(steps.reward, reward)
    np.testing.assert_array_equal(steps.terminated, terminated)
    np.testing.assert_array_equal(steps.truncated, truncated)
    np.testing.assert_array_equal(steps.final_obs[:, :, 0], successor)
    done = terminated | truncated
    np.testing.assert_array_equal(steps.first[:, :, 0], done)
    np.testing.assert_array_equal(steps.obs[:, :, 0][~done], successor[~done])
    assert (steps.obs[:, :, 0][done][:, 1] == 0).all()  # the next episode starts at once …
    assert (steps.obs[:, :, 0][done][:, 0] != successor[done][:, 0]).any()  # … and is another one


def test_with_ratio_one_the_ended_take_the_worlds_of_autoreset_in_order():
    """From one state both wrappers draw the same N worlds; Autoreset uses the i-th, the pool the next unused one."""
    probe, n = Counter(longest=3), 16
    plain, pooled = Autoreset(probe, n), PooledReset(probe, n, 1)
    state, _ = plain.reset(jax.random.key(3))
    again, _ = pooled.reset(jax.random.key(3))
    np.testing.assert_array_equal(state.inner, again.inner)  # a start is the same with and without a pool
    action = jnp.zeros((n, 1), jnp.int32)
    _, theirs = plain.step(state, action)
    _, ours = pooled.step(again, action)
    done = np.asarray(theirs.first[:, 0])
    assert 1 < done.sum() < n
    for name in ("first", "reward", "terminated", "truncated", "final_obs"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    np.testing.assert_array_equal(ours.obs[~done], theirs.obs[~done])
    _, everyone = Autoreset(AllEnd(), n).step(state, action)  # shows all N worlds that this state's key yields
    np.testing.assert_array_equal(ours.obs[done], everyone.obs[: done.sum()])
    np.testing.assert_array_equal(theirs.obs[done], everyone.obs[done])


class AllEnd(Counter):
    """The counter's worlds, but every step is the last."""

    def __init__(self, markers=1024):
        super().__init__(longest=1, markers=markers)


@pytest.mark.parametrize(("n", "ratio", "worlds"), [(8, 2, 4), (7, 2, 4), (8, 8, 1), (8, 50, 1), (8, 1, 8)])
def test_the_ended_share_the_pool_evenly_and_only_when_it_is_too_small(n, ratio, worlds):
    env = PooledReset(AllEnd(markers=100_000), n, ratio)  # so many markers that two worlds never look alike
    assert env.pool_size == worlds
    _, steps = run(env, 5)
    for markers in steps.obs[:, :, 0, 0]:
        _, counts = np.unique(markers, return_counts=True)
        assert len(counts) == worlds and counts.max() - counts.min() <= 1
    assert len(np.unique(steps.obs[:, :, 0, 0])) == 5 * worlds  # every step draws a new pool


def test_no_world_is_shared_while_the_pool_suffices():
    probe = Counter(longest=40, markers=100_000)
    _, steps = run(PooledReset(probe, 16, 4), 200)
    ended = steps.first[:, :, 0]
    enough = [(flags, obs) for flags, obs in zip(ended, steps.obs[:, :, 0, 0], strict=True) if 2 <= flags.sum() <= 4]
    assert len(enough) > 5
    assert all(len(np.unique(obs[flags])) == flags.sum() for flags, obs in enough)


def test_a_pool_lasts_for_its_steps_and_gives_each_world_once():
    n, every = 4, 3
    env = PooledReset(AllEnd(markers=100_000), n, 2, every)
    assert env.pool_size == 6  # twelve episodes end while it lasts
    _, steps = run(env, 12)
    pools = steps.obs[:, :, 0, 0].reshape(4, every * n)  # in the order in which environments ended
    for markers in pools:
        assert len(np.unique(markers[:6])) == 6
        np.testing.assert_array_equal(markers[:6], markers[6:])  # only then the first comes again
    assert len(np.unique(pools)) == 4 * 6


def test_seeds_trained_together_meet_the_worlds_they_would_meet_alone():
    env = PooledReset(Counter(longest=3, markers=100_000), 6, 4, 5)

    def play(key):
        def step(state, key):
            return env.step(state, jax.random.randint(key, (6, 1), 0, env.spec.num_actions))

        return jax.lax.scan(step, env.reset(key)[0], jax.random.split(key, 40))

    keys = jax.random.split(jax.random.key(5), 3)
    together = jax.jit(jax.vmap(play))(keys)
    for i, key in enumerate(keys):
        alone = jax.jit(play)(key)
        jax.tree.map(lambda many, one, i=i: np.testing.assert_array_equal(many[i], one), together[1], alone[1])


@pytest.mark.parametrize("seeds", [None, 3], ids=["alone", "together"])
def test_worlds_are_only_generated_when_a_pool_is_due(seeds):
    """The point of it all: between pools a step must not call `reset`, even where seeds are a batch."""
    calls = []

    class Watched(Counter):
        def reset(self, key):
            jax.debug.callback(lambda _: calls.append(1), key)
            return super().reset(key)

    env = PooledReset(Watched(longest=3), 4, 4, 5)
    reset, step = (env.reset, env.step) if seeds is None else (jax.vmap(env.reset), jax.vmap(env.step))
    keys = jax.random.key(0) if seeds is None else jax.random.split(jax.random.key(0), seeds)
    state, _ = jax.jit(reset)(keys)
    step, action = jax.jit(step), jnp.zeros((4, 1) if seeds is None else (seeds, 4, 1), jnp.int32)
    generated = []
    for _ in range(11):
        jax.effects_barrier()
        calls.clear()
        state, timestep = step(state, action)
        jax.block_until_ready(timestep)
        jax.effects_barrier()
        generated.append(len(calls) > 0)
    assert generated == [True, *[False] * 4] * 2 + [True]


def test_seeds_out_of_step_still_get_their_own_worlds():
    env = PooledReset(AllEnd(markers=100_000), 2, 2, 4)
    action = jnp.zeros((2, 1), jnp.int32)
    old, _ = env.reset(jax.random.key(0))
    old, _ = env.step(old, action)  # its pool lasts three steps more
    new, _ = env.reset(jax.random.key(1))
    both = jax.tree.map(lambda *x: jnp.stack(x), old, new)
    _, together = jax.jit(jax.vmap(env.step))(both, jnp.stack([action] * 2))
    for i, state in enumerate((old, new)):
        np.testing.assert_array_equal(together.obs[i], env.step(state, action)[1].obs)


def test_the_state_and_the_observation_are_of_the_same_world():
    env = PooledReset(Counter(longest=3), 6, 2, 4)
    state, timestep = env.reset(jax.random.key(0))
    for _ in range(6):
        state, timestep = env.step(state, jnp.zeros((6, 1), jnp.int32))
        assert isinstance(state, AutoresetState)
        np.testing.assert_array_equal(state.inner, timestep.obs[:, 0])
        np.testing.assert_array_equal(state.steps, timestep.obs[:, 0, 1])


def test_the_pool_keeps_limits_masks_keys_and_agents():
    _, steps = run(PooledReset(Endless(limit=3), 4, 2), 7)
    assert not steps.terminated.any()
    np.testing.assert_array_equal(steps.truncated[:, 0], [False, False, True] * 2 + [False])
    before, steps = run(PooledReset(Masked(), 4, 2), 6)
    np.testing.assert_array_equal(steps.avail[:, 0, 0], np.where(steps.obs[:, 0, 0, :1] > 0, [0, 1, 1], [1, 1, 0]))
    assert steps.final_obs is None
    before, steps = run(PooledReset(Team(), 4, 2), 6)
    assert before.shape == (6, 4, 2, 1) and steps.first.shape == (6, 4, 2)
    np.testing.assert_array_equal(steps.first[:, 0, 0], [False, False, True] * 2)
    np.testing.assert_array_equal(steps.info["t"][:, 0], [1, 2, 3] * 2)


class Team:
    """Two agents, a typed key and a Python number in the state, three steps."""

    spec = EnvSpec("team", (1,), np.dtype(np.float32), 2, num_agents=2, max_episode_steps=3, truncates=True)

    def reset(self, key):
        return {"t": 0, "key": key}, jnp.zeros((2, 1))

    def step(self, key, state, action):
        t = state["t"] + 1
        return Outcome({"t": t, "key": key}, jnp.full((2, 1), t, jnp.float32), t * 1.0, t > 3, info={"t": t})


@pytest.mark.parametrize("probe", [Counter(), Endless(limit=4), Team()], ids=["counter", "endless", "team"])
def test_the_pool_passes_the_checker(probe):
    env = PooledReset(probe, 5, 2, 3)
    assert isinstance(env, JaxEnv)
    report = check_env(env, steps=40)
    assert report.truncations > 0
    state, _ = env.reset(jax.random.key(0))
    step = jax.jit(env.step)
    for _ in range(3):
        state, _ = step(state, jnp.zeros((5, env.spec.num_agents), jnp.int32))
    assert step._cache_size() == 1


@pytest.mark.parametrize("ratio", [0, -1, 1.5, True, "8"])
def test_a_wrong_ratio_gets_a_sentence(ratio):
    with pytest.raises(EnvError, match="reset_ratio must be an integer of at least 1, not"):
        PooledReset(Counter(), 4, ratio)
    with pytest.raises(EnvError, match="reset_every must be an integer of at least 1, not"):
        PooledReset(Counter(), 4, 2, ratio)


def test_without_craftax_the_registry_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "craftax"]:
        monkeypatch.delitem(sys.modules, name)

    class Nowhere:
        def find_spec(self, fullname, path=None, target=None):
            if fullname.partition(".")[0] == "craftax":
                raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
            return None

    monkeypatch.setattr(sys, "meta_path", [Nowhere(), *sys.meta_path])
    with pytest.raises(EnvError, match=r"^craftax is not installed: pip install -e '\.\[craftax\]'"):
        make(CLASSIC, 1)


def test_textures_that_cannot_be_kept_get_a_sentence(tmp_path, monkeypatch):
    cache = tmp_path / "assets" / "texture_cache.pbz2"
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(EnvError, match=r"must write its texture cache once, but .*assets is not writable") as caught:
        craftax._check_textures("Craftax-Pixels-v1", str(cache))
    assert "\n" not in str(caught.value)
    cache.parent.mkdir()
    cache.touch()
    craftax._check_textures("Craftax-Pixels-v1", str(cache))  # it is there already: nothing to write
    monkeypatch.setenv("CRAFTAX_RELOAD_TEXTURES", "1")
    with pytest.raises(EnvError, match="not writable"):
        craftax._check_textures("Craftax-Pixels-v1", str(cache))


# ---- the adapter ----


@needs_craftax
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"max_steps": 5},
            "has no option 'max_steps'; its options are always_diamond, .*reset_every, reset_ratio",
        ),
        ({"max_timesteps": 0}, "max_timesteps must be an integer of at least 1, not 0"),
        ({"max_timesteps": 2.5}, "max_timesteps must be an integer of at least 1, not 2.5"),
        ({"always_diamond": "no"}, "always_diamond must be true or false, not 'no'"),
        ({"spawn_cow_chance": "often"}, "spawn_cow_chance must be a number, not 'often'"),
        ({"fractal_noise_angles": 1}, "has no option 'fractal_noise_angles'"),
        ({"reset_ratio": 0}, "reset_ratio must be an integer of at least 1, not 0"),
    ],
)
def test_a_wrong_option_gets_a_sentence(options, sentence):
    with pytest.raises(EnvError, match=f"{CLASSIC}.* {sentence}"):
        make(CLASSIC, 2, **options)


@needs_craftax
def test_specs_follow_craftax():
    symbolic = [name for name in FAMILIES["craftax"].names if "Pixels" not in name]
    full, classic = (make(name, 32) for name in symbolic)
    assert (full.spec.obs_shape, full.spec.num_actions, full.spec.max_episode_steps) == ((8268,), 43, 100_000)
    assert (classic.spec.obs_shape, classic.spec.num_actions, classic.spec.max_episode_steps) == ((1345,), 17, 10_000)
    assert (full.env.max_return, len(full.env.achievements)) == (226, 67)  # the numbers of the Craftax paper
    assert (classic.env.max_return, len(classic.env.achievements)) == (22, 22)
    for env, module in ((full, "craftax.craftax"), (classic, "craftax.craftax_classic")):
        numbered = {one.value: one.name.lower() for one in importlib.import_module(f"{module}.constants").Achievement}
        assert dict(enumerate(env.env.achievements)) == numbered  # craftax lists some out of order
    assert full.spec.truncates and full.spec.obs_dtype == np.float32
    assert full.pool_size == 32 * RESETS["reset_every"].default // RESETS["reset_ratio"].default
    plain = make(CLASSIC, 4, reset_ratio=1, max_timesteps=7.0, day_length=100)
    assert type(plain) is Autoreset and plain.spec.max_episode_steps == 7 and plain.env.params.day_length == 100


FULL = pytest.param("Craftax-Symbolic-v1", marks=pytest.mark.slow)  # minutes to compile


@pytest.fixture(scope="module", params=[CLASSIC, FULL])
def doctored(request):
    """A game, one fresh state, and a function that takes one no-op from it with some fields replaced."""
    game = craftax.CraftaxEnv(request.param, max_timesteps=50)
    state, _ = jax.jit(game.reset, compiler_options=HURRY)(jax.random.key(0))
    state = strong(state)  # or each replaced field would compile the step anew
    step = jax.jit(game.step, compiler_options=HURRY)

    def outcome(**changes):
        like = {key: jnp.asarray(value, getattr(state, key).dtype) for key, value in changes.items()}
        return jax.device_get(step(jax.random.key(1), state.replace(**like), jnp.int32(0))._replace(state=None))

    return game, state, outcome


def ends(outcome):
    return bool(outcome.terminated), bool(outcome.truncated)


@needs_craftax
def test_death_terminates_and_the_limit_truncates(doctored):
    _, _, outcome = doctored
    assert ends(outcome()) == (False, False)
    assert ends(outcome(timestep=48)) == (False, False)
    assert ends(outcome(timestep=49)) == (False, True)  # the 50th step
    assert ends(outcome(player_health=0)) == (True, False)
    assert ends(outcome(timestep=49, player_health=0)) == (True, False)  # dead for good: the limit is moot


@needs_craftax
def test_what_else_ends_the_game_terminates(doctored):
    game, state, outcome = doctored
    if "Classic" in game.spec.name:
        lava = importlib.import_module("craftax.craftax_classic.constants").BlockType.LAVA.value
        everywhere = jnp.full_like(state.map, lava)
        assert ends(outcome(map=everywhere)) == (True, False)
        assert ends(outcome(map=everywhere, timestep=49)) == (True, False)
    else:
        beaten = game.env.static_env_params.num_levels - 1
        assert ends(outcome(boss_progress=beaten - 1)) == (False, False)
        assert ends(outcome(boss_progress=beaten)) == (True, False)
        assert ends(outcome(boss_progress=beaten, timestep=49)) == (True, False)


@needs_craftax
def test_achievements_and_percent_of_the_maximum(doctored):
    game, state, outcome = doctored
    names = [f"achievement/{name}" for name in game.achievements]
    assert "achievement/collect_wood" in names and not state.achievements.any()
    nothing = outcome().info
    assert set(nothing) - {"score"} == {"percent_max", *names} and not any(nothing[name] for name in names)
    np.testing.assert_allclose(nothing["percent_max"], 0, atol=1e-5)
    everything = outcome(achievements=np.ones(len(names))).info
    assert all(everything[name] == 1 for name in names)
    np.testing.assert_allclose(everything["percent_max"], 100, rtol=1e-5)
    third = outcome(achievements=np.arange(len(names)) == 3, player_health=0).info
    assert [name for name in names if third[name]] == [names[3]]
    np.testing.assert_allclose(third["percent_max"], 100 * (game.rewards[3] - 0.9) / game.max_return, rtol=1e-4)
    assert ("score" in nothing) == ("Classic" in game.spec.name)


@needs_craftax
@pytest.mark.parametrize("name", [CLASSIC, FULL])
def test_metrics_agree_with_the_rewards_of_whole_episodes(name):
    limit = 220
    env = make(name, 8, reset_ratio=4, max_timesteps=limit)
    _, steps = run(env, 260)
    done = steps.terminated | steps.truncated
    assert steps.terminated.any() and not (steps.terminated & steps.truncated).any()
    seen = 0
    for i in range(env.num_envs):
        begin = 0
        for t in np.flatnonzero(done[:, i]):
            info = {key: value[t, i] for key, value in steps.info.items()}
            unlocked = sum(value for key, value in info.items() if key.startswith("achievement/"))
            total = steps.reward[begin : t + 1, i].sum()
            np.testing.assert_allclose(info["percent_max"], 100 * total / env.env.max_return, rtol=1e-4, atol=1e-4)
            assert t + 1 - begin <= limit and bool(steps.truncated[t, i]) <= (t + 1 - begin == limit)
            if "score" in info:  # craftax's geometric mean over achievements that are 0 or 100 %, offset by 1 %
                np.testing.assert_allclose(info["score"], 101 ** (unlocked / 22) - 1, rtol=1e-4)
            begin, seen = t + 1, seen + unlocked
    assert seen > 0  # random play wakes up or collects a sapling now and then


@needs_craftax
@pytest.mark.parametrize("name", [CLASSIC, FULL])
def test_check_env_finds_every_promise_kept(name):
    report = check_env(make(name, 3, reset_ratio=2, max_timesteps=6), steps=14)
    assert report.truncations == 6 and report.terminations == 0 and set(report.lengths) == {6}


@needs_craftax
@pytest.mark.slow
@pytest.mark.timeout(900)  # the first pixel environment of an installation prepares its textures
@pytest.mark.parametrize(
    ("name", "shape"), [("Craftax-Classic-Pixels-v1", (63, 63, 3)), ("Craftax-Pixels-v1", (130, 110, 3))]
)
def test_pixels(name, shape, capsys):
    env = make(name, 2, max_timesteps=4)
    assert "extures" not in capsys.readouterr().out
    assert env.spec.obs_shape == shape and env.spec.obs_dtype == np.float32
    before, steps = run(env, 9)
    assert before.shape == (9, 2, 1, *shape) and 0 <= before.min() < 0.5 < before.max() <= 1
    np.testing.assert_array_equal(steps.truncated[:, 0], [False, False, False, True] * 2 + [False])
    assert (steps.final_obs[3] != steps.obs[3]).any()
