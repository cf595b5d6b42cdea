"""Many runs: here, in processes on this machine, or as tasks of a Ray cluster. One interface for all three.

An *arm* is one run of many: a label, a configuration and the directory of the run. A *placement* says where arms run.

    from pqn.fleet.arms import Arm
    from pqn.fleet.placement import Placement, run_arms

    arms = [Arm("lam-0", config, Path("runs/lambda/lam-0")), …]
    outcomes = run_arms(arms, Placement(ray="local"))

`run_arms` returns one `Outcome` for each arm, in the order of the arms. The run is in the arm's directory, as
`pqn train` leaves it; `RunDir` and `read_summary` read it. An arm that is complete is not trained again, one that was
begun goes on from its checkpoint, and one that fails does not stop the others: its outcome has the sentence and the
exit status.

A command gets the options `--jobs`, `--ray`, `--retries`, `--cpus-per-run` and `--gpus-per-run`, and the placement that
they mean, from `pqn.cli.cluster`:

    cluster.add_placement(parser)
    outcomes = run_arms(arms, cluster.placement(given), Progress(quiet=given.quiet))

`Arm` is the usual `Task`. Other work is a class with the same methods: what it is called, how it is done, and how
another process is told of it.
"""
