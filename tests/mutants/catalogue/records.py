"""What a run leaves behind and what is made of it: checkpoints, metrics, statistics, reports."""

from __future__ import annotations

from ..mutation import mutation

CHECKPOINT = "checkpoint.py"
METRICS = "metrics.py"
STATISTICS = "report/statistics.py"

MUTATIONS = [
    mutation(
        "checkpoint-hash-not-verified",
        CHECKPOINT,
        'if hashlib.sha256(data).hexdigest() != expected["sha256"]:',
        'if hashlib.sha256(data).hexdigest() == "":',
        "A flipped bit in the weights is loaded without a word.",
        "test_checkpoint.py::test_every_flipped_bit_of_the_data_is_found[8]",
    ),
    mutation(
        "checkpoint-seal-not-verified",
        CHECKPOINT,
        "    if seal != _seal(content):\n",
        "    if not seal:\n",
        "A flipped digit in a counter is believed.",
        "test_checkpoint.py::test_no_flipped_bit_of_the_manifest_changes_what_is_read",
    ),
    mutation(
        "checkpoint-keeps-the-oldest",
        CHECKPOINT,
        "older[: keep - 1]",
        "older[len(older) - keep + 1 :]",
        "The oldest checkpoints are kept instead of the newest.",
        "test_checkpoint.py::test_only_the_last_k_are_kept",
    ),
    mutation(
        "checkpoint-keeps-an-abandoned-future",
        CHECKPOINT,
        "path.name < newest.name and",
        "path.name != newest.name and",
        "After resuming from an older checkpoint, later ones of the abandoned run remain and are resumed next.",
        "test_checkpoint.py::test_a_resumed_run_replaces_the_future_it_abandoned",
    ),
    mutation(
        "checkpoint-oldest-first",
        CHECKPOINT,
        "len(path.name) == 17), reverse=True)",
        "len(path.name) == 17))",
        "A run resumes from its oldest checkpoint.",
        "test_checkpoint.py::test_the_previous_one_is_used_and_said_so_when_the_newest_is_torn",
    ),
    mutation(
        "checkpoint-borrowed-memory",
        CHECKPOINT,
        "jax.numpy.array(array, copy=True)",
        "jax.device_put(array)",
        "Restored arrays share memory with the file's buffer, which a compiled update may overwrite.",
        "test_checkpoint.py::test_restored_arrays_own_their_memory",
    ),
    mutation(
        "metrics-rows-not-weighed",
        METRICS,
        "counts, sums = (np.add.reduceat(array, starts) for array in (counts, sums))",
        "sums = np.add.reduceat(sums / np.maximum(counts, 1), starts)\n"
        "        counts = np.add.reduceat((counts > 0) * 1.0, starts)",
        "A row with one episode counts as much as a row with a hundred.",
        "test_metrics.py::test_pooling_weighs_episodes_equally",
    ),
    mutation(
        "metrics-unfinished-count-as-zero",
        METRICS,
        "return sum(known) / len(known) if known else math.nan",
        "return sum(known) / len(values) if known else math.nan",
        "Episodes without a result pull the curve towards 0.",
        "test_metrics.py::test_evaluation_curve_averages_finished_episodes",
    ),
    mutation(
        "metrics-rows-lost-at-resume",
        METRICS,
        'row.get("update", update) <= update',
        'row.get("update", update) < update',
        "A resumed run loses the rows of its checkpoint's update.",
        "test_metrics.py::test_a_resumed_file_equals_the_uninterrupted_one",
    ),
    mutation(
        "metrics-torn-line-kept",
        METRICS,
        "        os.truncate(path, end)\n",
        "        pass\n",
        "The first row after a crash is glued to half of another.",
        "test_metrics.py::test_rows_come_back_and_appending_goes_on",
        "test_metrics.py::test_a_torn_file_reads_as_its_whole_lines",
    ),
    mutation(
        "statistics-iqm-cuts-too-little",
        STATISTICS,
        "range(n // 4, n - n // 4)",
        "range(n // 5, n - n // 5)",
        "The interquartile mean cuts fifths.",
        "test_statistics.py::test_iqm_by_hand",
    ),
    mutation(
        "statistics-iqm-with-gaps",
        STATISTICS,
        "(rank >= n // 4) & (rank < n - n // 4)",
        "(rank >= 0) & (rank < n - n // 4)",
        "With a missing score the lowest quarter is not cut.",
        "test_statistics.py::test_missing_scores_are_left_out",
    ),
    mutation(
        "statistics-tasks-resampled-together",
        STATISTICS,
        "size=(resamples, runs, tasks))",
        "size=(resamples, runs, 1))",
        "The bootstrap is not stratified by task: intervals are too wide.",
        "test_statistics.py::test_stratified_interval_matches_enumeration",
    ),
    mutation(
        "statistics-interval-too-narrow",
        STATISTICS,
        "tail = 50 * (1 - confidence)",
        "tail = 100 * (1 - confidence)",
        "A 95 % interval holds 90 %.",
        "test_statistics.py::test_interval_matches_the_enumerated_bootstrap_distribution",
    ),
    mutation(
        "loggers-seeds-not-weighed",
        "loggers.py",
        'float(np.sum(row["return_sum"]) / np.sum(row["episodes"]))',
        'float(np.mean(row["return_sum"]) / len(row["episodes"]))',
        "TensorBoard shows sums of returns that are not divided by episodes.",
        "test_loggers.py::test_scalars_average_over_seeds_and_weigh_episodes_equally",
    ),
    mutation(
        "report-human-score-without-random",
        "report/atari.py",
        "100.0 * (score - reference.random) /",
        "100.0 * score /",
        "Human-normalised scores do not subtract random play.",
        "test_atari_report.py::test_human_normalised",
    ),
]
