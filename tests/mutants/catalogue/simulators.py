"""Environments outside of JAX: Atari and Gymnasium."""

from __future__ import annotations

from ..mutation import mutation

ATARI = "envs/adapters/atari.py"
RECORDS = "envs/adapters/atari_records.py"
GYMNASIUM = "envs/adapters/gymnasium.py"
CONSOLE = "envs/adapters/test_atari.py::test_the_emulators_equal_a_plain_console"
LIVES = "envs/adapters/test_atari.py::test_a_lost_life_ends_the_episode_but_not_the_game"
FLAGS = "envs/adapters/test_gymnasium_flags.py::test_flags_and_final_observations_are_the_environments_own"

MUTATIONS = [
    mutation(
        "atari-a-lost-life-ends-the-game",
        ATARI,
        "over = began != self._began",
        "over = terminated",
        "Scores are reported per life.",
        LIVES,
    ),
    mutation(
        "atari-lives-do-not-end-episodes",
        ATARI,
        '"paper": {"sticky_actions": 0.0, "episodic_life": True,',
        '"paper": {"sticky_actions": 0.0, "episodic_life": False,',
        "The paper's protocol loses its episodic lives.",
        LIVES,
    ),
    mutation(
        "atari-rewards-not-clipped",
        RECORDS,
        "np.sign(reward) if",
        "reward if",
        "Rewards of tens and hundreds reach the loss.",
        f"{CONSOLE}[space_invaders-dopamine-given3-1000]",
    ),
    mutation(
        "atari-actions-do-not-stick",
        ATARI,
        '"repeat_action_probability": chosen["sticky_actions"]',
        '"repeat_action_probability": 0.0 * chosen["sticky_actions"]',
        "Dopamine's protocol is deterministic.",
        f"{CONSOLE}[space_invaders-dopamine-given3-1000]",
    ),
    mutation(
        "atari-no-random-start",
        ATARI,
        '"noop_max": chosen["noop_max"],',
        '"noop_max": 0,',
        "All games start in the same frame, and a policy can learn a sequence by heart.",
        "envs/test_starts.py::test_atari_games_start_at_random_frames_unless_told_not_to",
    ),
    mutation(
        "atari-nobody-serves-the-first-ball",
        ATARI,
        '"use_fire_reset": chosen["fire_reset"]',
        '"use_fire_reset": False',
        "Breakout starts without FIRE.",
        f"{CONSOLE}[breakout-paper-given0-330]",
    ),
    mutation(
        "atari-nobody-serves-after-a-lost-life",
        ATARI,
        "np.where(self._served, action, np.int32(self._fire))",
        "np.where(self._served, action, action)",
        "A greedy player that never presses FIRE waits for ever.",
        "envs/adapters/test_atari.py::test_fire_is_pressed_after_a_lost_life",
    ),
    mutation(
        "atari-time-limit-terminates",
        ATARI,
        '"terminated": terminated, "truncated": up & ~terminated',
        '"terminated": terminated | up, "truncated": up & ~up',
        "Half an hour of play counts as death.",
        f"{CONSOLE}[pong-paper-given2-150]",
    ),
    mutation(
        "atari-one-step-too-many",
        ATARI,
        "(self._steps >= self._limit)",
        "(self._steps > self._limit)",
        "Games last one step longer than their limit.",
        f"{CONSOLE}[pong-paper-given2-150]",
    ),
    mutation(
        "atari-final-frames-of-the-next-game",
        RECORDS,
        '"final_obs": final_obs[:, None],',
        '"final_obs": obs[:, None],',
        "A truncated game bootstraps from the next one's first frames.",
        f"{CONSOLE}[pong-paper-given2-150]",
    ),
    mutation(
        "atari-score-of-all-games",
        ATARI,
        "self._score[ended] = 0",
        "self._score[ended] += 0",
        "A game's score includes all earlier ones.",
        f"{CONSOLE}[breakout-paper-given0-330]",
    ),
    mutation(
        "atari-frames-run-backwards",
        RECORDS,
        '"obs": obs[:, None],',
        '"obs": obs[:, None, ::-1],',
        "The newest frame comes first: motion is reversed.",
        f"{CONSOLE}[pong-paper-given2-150]",
    ),
    mutation(
        "atari-sprites-flicker",
        ATARI,
        '"maxpool": chosen["max_pool"]',
        '"maxpool": False',
        "Sprites that are drawn in every other frame are invisible half of the time.",
        f"{CONSOLE}[space_invaders-dopamine-given3-1000]",
    ),
    mutation(
        "atari-limit-rounded-down",
        RECORDS,
        '-(-chosen["max_frames"] // chosen["frame_skip"])',
        'chosen["max_frames"] // chosen["frame_skip"]',
        "The promised length is shorter than a game may be.",
        "envs/adapters/test_atari.py::test_every_part_of_a_protocol_can_be_overridden[paper]",
    ),
    mutation(
        "gymnasium-half-of-the-truncations-terminate",
        GYMNASIUM,
        "terminated = np.asarray(terminated, bool)\n",
        "terminated = np.asarray(terminated, bool) | (truncated & (np.arange(self.num_envs) % 2 == 0))\n",
        "Time limits of every other environment count as terminal states.",
        f"{FLAGS}[same_step]",
    ),
    mutation(
        "gymnasium-both-flags",
        GYMNASIUM,
        "np.asarray(truncated, bool) & ~terminated",
        "np.asarray(truncated, bool)",
        "An episode that ends at its limit is terminated and bootstrapped.",
        f"{FLAGS}[same_step]",
    ),
    mutation(
        "gymnasium-final-observation-is-the-next-first",
        GYMNASIUM,
        'final_obs[truncated] = self._convert(np.stack(info["final_obs"][truncated]))',
        'self._convert(np.stack(info["final_obs"][truncated]))',
        "A truncated episode bootstraps from the next one's first observation.",
        f"{FLAGS}[same_step]",
    ),
    mutation(
        "gymnasium-reset-before-the-final-observation",
        GYMNASIUM,
        "                final_obs = obs.copy()\n                obs = self._convert(",
        "                final_obs = obs = self._convert(",
        "Without autoreset a truncated episode bootstraps from the next one's first observation.",
        f"{FLAGS}[disabled]",
    ),
    mutation(
        "gymnasium-episode-starts-a-step-early",
        GYMNASIUM,
        "first, valid = self._over, ~self._over",
        "first, valid = done, ~self._over",
        "Where resets come a step late, memory is cleared before the last observation instead of the first.",
        f"{FLAGS}[next_step]",
    ),
    mutation(
        "gymnasium-actions-from-zero",
        GYMNASIUM,
        ".astype(np.int64) + self._first_action",
        ".astype(np.int64)",
        "Environments whose actions do not start at 0 are sent others.",
        f"{FLAGS}[same_step]",
    ),
    mutation(
        "gymnasium-one-seed-for-all",
        GYMNASIUM,
        "[int(seed) for seed in seeds] if own",
        "[int(seeds[0]) for seed in seeds] if own",
        "All environments play the same episode.",
        "envs/adapters/test_gymnasium_flags.py::test_every_environment_has_its_own_seed",
    ),
]
