"""The model card: what an exported agent is, how it was trained, how well it plays and how to load it.

It is Markdown with the header that the Hugging Face Hub reads, written from the run. It names nothing of the machine
that trained: no path, no host.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pqn.config import Config
from pqn.envs.registry import GIVEN_IN_PYTHON
from pqn.export.formats import Written
from pqn.export.model import Model, Tensor
from pqn.options import OWN_NETWORK
from pqn.presets import PRESETS, preset
from pqn.programs.evaluation import means
from pqn.progress import human
from pqn.runs.configs import differences
from pqn.runs.json_text import to_json
from pqn.runs.opened import OpenedRun
from pqn.runs.trained import Trained

MARK = "<!-- written by pqn export -->"

HOW_TO_LOAD = {
    "onnx": '''import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("agent.onnx")
inputs = {{
{arrays}
}}
outputs = dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs)))
print(outputs["action"], outputs["scores"])''',
    "stablehlo": '''import numpy as np
from jax import export

with open("agent.stablehlo", "rb") as file:
    agent = export.deserialize(bytearray(file.read()))
inputs = {{
{arrays}
}}
action, scores, *memory = agent.call(*inputs.values())
print(action, scores)''',
    "safetensors": '''import numpy as np
from pqn.export.loading import load_exported  # or read the parameters by name: safetensors.numpy.load_file

agent = load_exported("."{network})
print(agent.act({obs}))''',
}  # fmt: skip


class Subject(NamedTuple):
    """What a card is about."""

    opened: OpenedRun
    trained: Trained
    model: Model
    seed: int  # of the run's seeds
    written: Mapping[str, Written]  # format -> file


def write_card(subject: Subject) -> str:
    """The card as Markdown."""
    config, trained = subject.trained.config, subject.trained
    algorithm, task = config.algorithm.upper(), config.env.name
    sections = [
        _header(subject, f"{algorithm} on {task}"),
        f"{MARK}\n# {algorithm} on {task}\n\nAn agent for `{task}`, trained by pqn with {algorithm}.",
        _table(
            {
                "task": f"`{task}`" + (f" with `{to_json(config.env.kwargs)}`" if config.env.kwargs else ""),
                "algorithm": algorithm,
                "trained for": f"{human(trained.step)} environment steps",
                "seeds of the run": _seeds(config),
                "seed of this agent": str(subject.seed),
                "network": _network(config),
                "preset": f"`{config.preset}`",
            }
        ),
        "## Evaluation\n\n" + _evaluation(subject),
        "## Inputs and outputs\n\nThe first axis is the batch, of any size.\n\n"
        + _tensors("input", subject.model.inputs, [tensor.name for tensor in subject.model.inputs])
        + "\n\n"
        + _tensors("output", subject.model.outputs, subject.model.output_names),
        "## Load it\n\n" + "\n\n".join(_how_to_load(subject.model, name) for name in subject.written),
        f"## Train it again\n\n```sh\n{train_command(config)}\n```",
        "## Versions\n\n" + _table({name: value or "–" for name, value in _versions(subject).items()}),
        f"## Configuration\n\n```json\n{json.dumps(json.loads(to_json(config.to_dict())), indent=2)}\n```",
    ]
    return "\n\n".join(sections) + "\n"


def train_command(config: Config) -> str:
    """`pqn train` with the preset and every option in which the run differs from it."""
    known = config.preset in PRESETS
    words = ["pqn", "train", *([config.preset] if known else ["--env", config.env.name])]
    for name, (ours, _) in differences(config, preset(config.preset) if known else Config()).items():
        if name in ("preset", *(() if known else ("env.name",))):
            continue
        words.append(f"--{name.replace('_', '-')}")
        if isinstance(ours, dict):
            words += [f"{key}={to_json(value)}" for key, value in ours.items()]
        elif isinstance(ours, list | tuple):
            words += map(str, ours)
        else:
            words.append(str(ours).lower() if isinstance(ours, bool) else str(ours))
    return shlex.join(words)


def _header(subject: Subject, name: str) -> str:
    """The part in YAML that the Hub reads; JSON is YAML."""
    task = subject.trained.config.env.name
    content: dict[str, object] = {
        "library_name": "pqn",
        "tags": ["reinforcement-learning", subject.trained.config.algorithm, "jax", task],
    }
    mean, std, _ = _returns(subject)
    if mean is not None:
        metric = {"type": "mean_reward", "name": "mean_reward", "value": f"{mean:.2f} +/- {std:.2f}"}
        result = {
            "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
            "dataset": {"name": task, "type": task},
            "metrics": [metric],
        }
        content["model-index"] = [{"name": name, "results": [result]}]
    return "---\n" + "\n".join(f"{key}: {json.dumps(value)}" for key, value in content.items()) + "\n---"


def _returns(subject: Subject) -> tuple[float | None, float, int]:
    """Mean and deviation of this agent's greedy returns, and of how many episodes; None where it was not evaluated."""
    returns = subject.trained.own_returns
    if returns is None:
        return None, 0.0, 0
    own = returns[subject.seed - subject.trained.config.seed]
    known = own[~np.isnan(own)]
    return (float(known.mean()), float(known.std()), len(known)) if len(known) else (None, 0.0, 0)


def _evaluation(subject: Subject) -> str:
    mean, std, episodes = _returns(subject)
    returns = subject.trained.own_returns
    if mean is None or returns is None:
        return "The run has no evaluation of this agent that ended."
    counted = "one episode" if episodes == 1 else f"mean and deviation of {episodes} episodes"
    told = f"Greedy return {mean:.2f} ± {std:.2f} ({counted})."
    unfinished = returns.shape[1] - episodes
    if unfinished:
        told += f" No number includes {unfinished} more, which did not end."
    seeds = means(returns)
    if len(seeds) > 1:
        told += f" Means of all {len(seeds)} seeds: {', '.join(f'{value:.2f}' for value in seeds)}."
    return told


def _seeds(config: Config) -> str:
    return str(config.seed) if config.seeds == 1 else f"{config.seed} to {config.seed + config.seeds - 1}"


def _network(config: Config) -> str:
    network = config.network
    memory = "" if network.memory == "none" else f", {network.memory} of {network.memory_size}"
    return f"{network.torso}, hidden layers {' '.join(map(str, network.hidden)) or 'none'}{memory}, norm {network.norm}"


def _versions(subject: Subject) -> dict[str, str | None]:
    identity = subject.trained.env
    return subject.opened.versions | (identity.versions if identity else {})


def _tensors(kind: str, tensors: Sequence[Tensor], names: Sequence[str]) -> str:
    rows = [
        f"| `{name}` | {tensor.dtype} | [batch{''.join(f', {size}' for size in tensor.shape)}] | {tensor.meaning} |"
        for name, tensor in zip(names, tensors, strict=True)
    ]
    return "\n".join([f"| {kind} | type | shape | |", "|---|---|---|---|", *rows])


def _how_to_load(model: Model, name: str) -> str:
    arrays = [f'    "{x.name}": {_zeros(x, x.name in ("first", "avail"))},' for x in model.inputs]
    code = HOW_TO_LOAD[name].format(arrays="\n".join(arrays), obs=_zeros(model.inputs[0], False), network=_given(model))
    return f"```python\n{code}\n```"


def _given(model: Model) -> str:
    """The argument that gives a network of the user again."""
    name = model.config.network.module
    if name == OWN_NETWORK:
        return ""
    return f", network={'make_network' if name.startswith(f'{GIVEN_IN_PYTHON}:') else repr(str(name))}"


def _zeros(tensor: Tensor, ones: bool) -> str:
    sizes = ", ".join(map(str, (1, *tensor.shape))) + ("," if not tensor.shape else "")
    return f'np.{"ones" if ones else "zeros"}(({sizes}), "{tensor.dtype}")'


def _table(rows: Mapping[str, str]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])
