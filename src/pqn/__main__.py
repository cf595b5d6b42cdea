"""`python -m pqn` is the `pqn` command."""

from pqn.cli.main import main

raise SystemExit(main())
