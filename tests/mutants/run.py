"""Trying mutations: a copy of src/ for each worker, pytest on it, and what its outcome means."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

from .mutation import PACKAGE, ROOT, Mutation

FAILED_TESTS = 1  # pytest's exit status; others mean that no test could say anything
# A mutant that dies of these is no wrong program but no program at all, and every test would notice it.
NO_PROGRAM = ("ImportError", "ModuleNotFoundError", "SyntaxError", "NameError", "UnboundLocalError")
_FAILURE = re.compile(r"^FAILED (\S+?(?:\[.*?\])?)(?: - (.*))?$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What pytest said about one copy of the code."""

    status: int | None
    """Exit status; None if it ran out of time."""
    output: str
    seconds: float


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What became of a mutation."""

    mutation: Mutation
    what: str
    """`caught`, `survived`, or `no program` where it broke more than a test."""
    by: str
    seconds: float

    @property
    def caught(self) -> bool:
        return self.what == "caught"

    @property
    def timed_out(self) -> bool:
        return self.caught and self.by.startswith("out of time")

    def __str__(self) -> str:
        return f"{self.what:10s} {self.mutation.name:40s} {self.seconds:5.0f} s  {self.by}"


class Workshop:
    """A temporary directory with a copy of src/ for each worker; the working tree is never touched.

    Compiled programs have a cache of their own, which the tests on the code as it is fill first: of a mutant only what
    the mutation changes is compiled anew, and the user's own cache neither grows nor learns of it.
    """

    def __init__(self, place: Path, jobs: int, timeout: float, cache: Path | None):
        self.timeout, self.cache = timeout, (cache or place / "cache").resolve()
        self.jobs = max(1, jobs)
        self.copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(self.jobs):
            copy = place / f"copy-{number}"
            shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
            self._check_imports(copy)
            self.copies.put(copy)

    def baseline(self, mutations: list[Mutation]) -> str:
        """Runs all tests of the mutations on the code as it is; returns what pytest says unless they pass."""
        tests = sorted({test for mutation in mutations for test in mutation.tests})
        shares = [tests[i :: self.jobs] for i in range(self.jobs)]
        with ThreadPoolExecutor(self.jobs) as pool:
            outcomes = list(pool.map(self._try_unchanged, filter(None, shares)))
        return "\n".join(outcome.output for outcome in outcomes if outcome.status != 0)

    def verdicts(self, mutations: list[Mutation]) -> Iterator[Verdict]:
        """What becomes of each mutation, in the order in which they are done."""
        with ThreadPoolExecutor(self.jobs) as pool:
            futures = [pool.submit(self._judge, mutation) for mutation in mutations]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:  # after a Ctrl-C, only what is under way is waited for
                pool.shutdown(wait=False, cancel_futures=True)

    def _try_unchanged(self, tests: list[str]) -> Outcome:
        copy = self.copies.get()
        try:
            return self._pytest(copy, tests, timeout=3600.0, most=1000)
        finally:
            self.copies.put(copy)

    def _judge(self, mutation: Mutation) -> Verdict:
        copy = self.copies.get()
        file = copy / mutation.path
        source = file.read_text()
        try:
            file.write_text(mutation.mutated(source))
            return verdict(mutation, self._pytest(copy, list(mutation.tests), self.timeout))
        finally:
            file.write_text(source)
            self.copies.put(copy)

    def _pytest(self, copy: Path, tests: list[str], timeout: float, most: int = 1) -> Outcome:
        """Runs tests, until `most` of them have failed."""
        # Without the options of pyproject.toml, which also collect doctests.
        command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-rf", "-o", "addopts=", "-p", "no:xdist"]
        command += ["-p", "no:cacheprovider", f"--maxfail={most}", *(f"tests/{test}" for test in tests)]
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=self._environment(copy),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # so that simulators' processes can be ended with it
        )
        try:
            output, _ = process.communicate(timeout=timeout)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            status = None
        return Outcome(status, output, time.perf_counter() - began)

    def _environment(self, copy: Path) -> dict[str, str]:
        return os.environ | {
            "PYTHONPATH": str(copy / "src"),
            # A file's bytecode is recognised by its size and second: two mutations of one file can have both in common.
            "PYTHONDONTWRITEBYTECODE": "1",
            "JAX_COMPILATION_CACHE_DIR": str(self.cache),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
            "COLUMNS": "1000",  # or pytest shortens what failed
        }

    def _check_imports(self, copy: Path) -> None:
        """An installed pqn must not take the copy's place: every mutant would survive."""
        code = "import pqn; print(pqn.__file__)"
        found = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=self._environment(copy),
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        if not Path(found).is_relative_to(copy / PACKAGE):
            raise RuntimeError(f"tests would import {found}, not the copy in {copy}")


def verdict(mutation: Mutation, outcome: Outcome) -> Verdict:
    """What an outcome says about a mutation.

    Only a test that fails counts. Where nothing can be imported or collected, or a name is missing, the mutation has
    broken the program so thoroughly that it says nothing about the tests.
    """
    if outcome.status is None:
        return Verdict(mutation, "caught", f"out of time: {', '.join(mutation.tests)}", outcome.seconds)
    if outcome.status == 0:
        return Verdict(mutation, "survived", f"passed: {', '.join(mutation.tests)}", outcome.seconds)
    failure = _FAILURE.search(outcome.output)
    if outcome.status != FAILED_TESTS or failure is None:
        return Verdict(mutation, "no program", outcome.output.strip()[-2000:], outcome.seconds)
    test, why = failure.group(1), failure.group(2) or ""
    kind = "AssertionError" if why.startswith("assert ") else why.partition(":")[0].strip()
    what = "no program" if kind in NO_PROGRAM else "caught"
    return Verdict(mutation, what, f"{test.removeprefix('tests/')} ({kind})", outcome.seconds)
