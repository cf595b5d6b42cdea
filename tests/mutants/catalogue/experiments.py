"""Experiments of the paper: what runs them, their results, and the text that is made of them."""

from __future__ import annotations

from ..mutation import mutation

RUNNER = "experiments/test_runner.py"
PAGES = "experiments/test_pages.py"
CLAIMS = "experiments/test_claims.py"

MUTATIONS = [
    mutation(
        "share-with-its-own-schedule",
        "experiments/paper/base.py",
        '{"total_steps": steps, "learner.schedule_steps": full}',
        '{"total_steps": steps}',
        "A share of the budget decays ε and the learning rate over the share.",
        "experiments/paper/test_paper.py::test_every_arm_can_be_trained_whole_and_in_part",
    ),
    mutation(
        "result-replaced",
        "experiments/envelope.py",
        "os.link(temporary, path)",
        "os.replace(temporary, path)",
        "A new result replaces an old one of the same minute.",
        "experiments/test_envelope.py::test_a_new_result_never_replaces_an_old_one",
    ),
    mutation(
        "result-of-half-a-run",
        "experiments/chosen.py",
        "if result.complete and path.relative_to(out)",
        "if path.relative_to(out)",
        "A run that was stopped is in the tables.",
        "experiments/test_chosen.py::test_half_a_result_is_not_used",
    ),
    mutation(
        "result-chosen-by-score",
        "experiments/chosen.py",
        "(each[1].share, len(each[1].seeds), each[1].last.date)",
        "(each[1].share, float(each[1].per_seed.mean()))",
        "Of several results the best one counts.",
        "experiments/test_chosen.py::test_the_score_plays_no_part",
    ),
    mutation(
        "seeds-of-the-second-batch-anew",
        "experiments/runner.py",
        "config.replace(seed=config.seed + first, seeds",
        "config.replace(seed=config.seed, seeds",
        "Every batch trains the first seeds.",
        f"{RUNNER}::test_seeds_are_batched_by_memory",
    ),
    mutation(
        "longer-schedules-of-another-length",
        "experiments/longer.py",
        "if schedule_steps(there) != schedule_steps(config) or there.total_steps > config.total_steps:",
        "if there.total_steps > config.total_steps:",
        "A share goes on from a run whose learning rate fell over another length.",
        "experiments/test_longer.py",
    ),
    mutation(
        "longer-who-trained-the-beginning-forgotten",
        "experiments/longer.py",
        'b"".join(earlier)',
        'b""',
        "A result does not name the commit that trained its first half.",
        "experiments/test_longer.py",
    ),
    mutation(
        "finished-batch-trained-again",
        "experiments/runner.py",
        "if known and files.is_file(path / SUMMARY) and planned.total_steps == config.total_steps:",
        "if False:",
        "A batch that has reached its end is opened again.",
        f"{RUNNER}::test_killed_around_the_writing_of_the_result",
    ),
    mutation(
        "best-evaluation-as-final",
        "experiments/from_runs.py",
        'found = {name: rows[-1] for name, rows in self.curves("greedy").values.items()}',
        'found = {name: max(rows) for name, rows in self.curves("greedy").values.items()}',
        "The best evaluation over time is reported as the final one.",
        f"{RUNNER}::test_the_final_policy_counts_and_not_the_best_one",
    ),
    mutation(
        "failure-hidden",
        "experiments/campaign.py",
        'return Outcome(arm, "failed", why=said)',
        'return Outcome(arm, "left", why=said)',
        "A failed arm looks like one for which there was no time.",
        "experiments/test_campaign.py::test_an_arm_that_fails_is_told_and_the_others_go_on",
    ),
    mutation(
        "improvement-of-the-wrong-sign",
        "experiments/numbers.py",
        "sign = -1.0 if entry.lower_is_better else 1.0",
        "sign = 1.0",
        "More episodes until solved count as an improvement.",
        f"{PAGES}::test_lower_is_better_where_it_is",
    ),
    mutation(
        "claim-without-comparison",
        "experiments/claims.py",
        "if abs(value - written) <= claim.tolerance:",
        "if True:",
        "A sentence may say something else than its data.",
        f"{CLAIMS}::test_a_sentence_that_parts_from_its_data",
    ),
    mutation(
        "claim-for-the-whole-page",
        "experiments/claims.py",
        "if each.start not in covered",
        "if not covered",
        "One claim excuses every number of a page.",
        f"{CLAIMS}::test_a_second_measurement_needs_a_second_claim",
    ),
]
