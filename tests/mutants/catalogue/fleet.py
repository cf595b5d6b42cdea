"""Many runs: arms in processes, axes of sweeps, trials in one program, searches that workers share."""

from __future__ import annotations

from ..mutation import mutation

ARMS = "fleet/arms.py"
PROCESSES = "fleet/processes.py"
STUDY = "search/study.py"
TOGETHER = "search/together.py"
TRIALS = "programs/trials.py"
ALONE = "programs/test_trials.py::test_trials_in_one_program_are_the_trials_alone"
KILLED = "search/test_study.py::test_a_worker_that_was_killed_leaves_its_trials_to_others"
LEFT_OUT = "search/test_together.py::test_values_are_those_of_the_runs_and_what_has_ended_is_left_out"

MUTATIONS = [
    mutation(
        "sweep-coupled-options-crossed",
        "cli/sweep.py",
        "len(values) != len(names)",
        "len(values) > len(names)",
        "A point that lacks a value is taken, and fails later without a sentence.",
        "cli/test_sweep.py::test_mistakes_are_sentences",
    ),
    mutation(
        "sweep-lists-split-at-commas",
        "cli/sweep.py",
        "if letter == separator and depth == 0 and not quoted:",
        "if letter == separator and not quoted:",
        "A list within a coupled axis falls apart.",
        "cli/test_sweep.py::test_values_of_an_axis",
    ),
    mutation(
        "sweep-failure-ends-with-success",
        ARMS,
        "outcome.status for outcome in outcomes if outcome.error is not None",
        "outcome.status for outcome in outcomes if outcome.error is None",
        "A sweep in which a run failed exits with status 0.",
        "cli/test_sweep.py::test_a_run_that_fails_hides_no_other",
    ),
    mutation(
        "processes-retried-once-less",
        PROCESSES,
        "elif job.left:",
        "elif job.left > 1:",
        "A process that dies is started again less often than asked for.",
        "fleet/test_arms.py::test_a_process_that_always_dies_is_given_up",
    ),
    mutation(
        "processes-all-on-the-first-gpu",
        PROCESSES,
        "gpus[slot % len(gpus)]",
        "gpus[0]",
        "All processes share one GPU while the others idle.",
        "fleet/test_arms.py::test_gpus_are_dealt_out_and_shared",
    ),
    mutation(
        "trials-hyperparameters-of-the-wrong-trial",
        TRIALS,
        "jnp.repeat(jnp.stack(values), first.seeds, axis=0)",
        "jnp.tile(jnp.stack(values), first.seeds)",
        "Seeds of one trial learn with the hyperparameters of another.",
        ALONE,
    ),
    mutation(
        "trials-seeds-of-each-differ",
        TRIALS,
        "jnp.tile(jnp.arange(first.seed, first.seed + first.seeds), len(configs))",
        "jnp.repeat(jnp.arange(first.seed, first.seed + first.seeds), len(configs))",
        "The trials of a search are compared on different seeds.",
        ALONE,
    ),
    mutation(
        "trials-narrowed-to-the-wrong-places",
        TRIALS,
        "np.arange(self.per_trial) + index * self.per_trial",
        "np.arange(self.per_trial) + index",
        "After pruning, the trials that are left go on from the state of others.",
        ALONE,
    ),
    mutation(
        "trials-zero-shares-a-program",
        TRIALS,
        "if getattr(getattr(config, group), name) == 0]",
        "if getattr(getattr(config, group), name) is None]",
        "A trial with ℓ2 shares a program that has no such term.",
        "programs/test_trials.py::test_what_is_compiled_in_is_not_shared",
    ),
    mutation(
        "search-lost-trials-forgotten",
        STUDY,
        "            self.study.enqueue_trial(params)",
        "            pass",
        "The options that a killed worker was trying are never tried again.",
        KILLED,
    ),
    mutation(
        "search-living-workers-taken-for-dead",
        STUDY,
        "        except RunError:\n            return True",
        "        except RunError:\n            return False",
        "A second worker takes away the trials of the first.",
        "search/test_study.py::test_two_workers_share_one_journal_and_one_budget",
    ),
    mutation(
        "search-budget-of-each-worker",
        STUDY,
        "states=(state.COMPLETE, state.PRUNED, state.RUNNING)",
        "states=(state.COMPLETE, state.PRUNED)",
        "Two workers together run twice the trials.",
        "search/test_study.py::test_two_workers_share_one_journal_and_one_budget",
    ),
    mutation(
        "search-values-of-the-wrong-lane",
        TOGETHER,
        "        self.lanes = live\n",
        "",
        "After pruning, a trial is told the return of another.",
        LEFT_OUT,
    ),
]
