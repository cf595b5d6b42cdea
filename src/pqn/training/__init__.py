"""Training: `train` starts a run, `resume` continues one; both end in the host loop of `loop`."""

from __future__ import annotations

from pqn.training.result import Result as Result
from pqn.training.start import resume as resume
from pqn.training.start import train as train
