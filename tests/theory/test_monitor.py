"""The stability meter on real runs, and the commands of the theory."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import build, run_updates, tiny

import pqn
from pqn.cli.main import main
from pqn.experiments import lemma
from pqn.progress import Progress
from pqn.theory.jacobian import td_update
from pqn.theory.monitor import Monitor
from pqn.theory.regulariser import Regulariser

ONE_STEP = {
    "learner.lam": 0.0,
    "learner.epochs": 1,
    "learner.minibatches": 1,
    "learner.lr": 1.0,
    "learner.lr_decay": False,
    "learner.max_grad_norm": 1e9,
    "learner.reward_scale": 0.5,
}
"""An update that is one step along minus the gradient: RAdam's first step is plain momentum."""


@pytest.mark.parametrize("memory", ["none", "gru"])
def test_the_update_the_meter_sees_is_the_step_that_the_run_takes_next(memory):
    """With λ = 0, minus the gradient of the learner's own loss, measured as the change of its parameters."""
    program = build(tiny(ONE_STEP | {"network.memory": memory}))
    fresh = jax.jit(jax.vmap(program.init_one))(program.seeds)
    state = run_updates(program, 2, fresh)
    state = state._replace(learner=state.learner._replace(opt=fresh.learner.opt))  # its first step again
    after = run_updates(program, 1, state)
    one, then = (jax.tree.map(lambda x: x[0], s.learner.params) for s in (state, after))
    monitor = Monitor(program, transitions=64)
    batch = monitor.next_batch(jax.tree.map(lambda x: x[0], state))
    seen = jax.jit(lambda params: td_update(monitor.q_values, params, batch))(one)
    for found, old, new in zip(*map(jax.tree.leaves, (seen, one, then)), strict=True):
        np.testing.assert_allclose(found, new - old, atol=2e-5)
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(seen)) > 0.01


class Plain:
    """One hidden layer of the run's network in float64: dense, LayerNorm, ReLU, head; φ in the order of the tree."""

    def __init__(self, params):
        leaves, self.structure = jax.tree.flatten(params)
        self.shapes = [leaf.shape for leaf in leaves]
        self.phi = np.concatenate([np.ravel(leaf) for leaf in leaves]).astype(float)
        mark = jax.tree.map(np.zeros_like, params) | {"head": jax.tree.map(np.ones_like, params["head"])}
        self.final = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(mark)]) > 0

    def q(self, phi, x):
        ends = np.cumsum([np.prod(shape) for shape in self.shapes])[:-1]
        parts = [part.reshape(shape) for part, shape in zip(np.split(phi, ends), self.shapes, strict=True)]
        params = jax.tree.unflatten(self.structure, parts)
        dense, norm = params["torso"]["Dense_0"], params["torso"]["Norm_0"]["LayerNorm_0"]
        h = x @ dense["kernel"] + dense["bias"]
        centred = h - h.mean(-1, keepdims=True)
        h = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * norm["scale"] + norm["bias"]
        return np.where(h.real > 0, h, 0.0) @ params["head"]["q"]["kernel"] + params["head"]["q"]["bias"]

    def taken(self, phi, x, action):
        return self.q(phi, x)[np.arange(len(x)), action]

    def gradients(self, phi, x, action):
        """∂Q(x, a)/∂φ, [B, d], by complex steps."""
        columns = []
        for i in range(len(phi)):
            shifted = phi.astype(complex)
            shifted[i] += 1e-30j
            columns.append(self.taken(shifted, x, action).imag / 1e-30)
        return np.stack(columns, axis=1)


def numpy_jacobian(net, data):
    """δ(φ) = E[(r + γ max Q(x') − Q(x)) ∇Q(x)], and ∇δ by central differences: [d] and [d, d]."""
    x, action, reward, discount, after = data

    def update(phi):
        error = reward + discount * net.q(phi, after).max(1) - net.taken(phi, x, action)
        return (error[:, None] * net.gradients(phi, x, action)).mean(0)

    columns = []
    for i in range(len(net.phi)):
        shift = np.zeros(len(net.phi))
        shift[i] = 1e-6
        columns.append((update(net.phi + shift) - update(net.phi - shift)) / 2e-6)
    return update(net.phi), np.stack(columns, axis=1)


@pytest.fixture(scope="module")
def measured():
    """A report of a small run, and the same network and transitions in numpy."""
    options = {"network.hidden": (3,), "learner.reward_scale": 0.5, "learner.l2_final": 0.01, "learner.lr": 3e-3}
    program = build(tiny(options))
    state = run_updates(program, 6)
    one = jax.tree.map(lambda x: x[0], state)
    net = Plain(one.learner.params)
    monitor = Monitor(program, transitions=64, iterations=len(net.phi))
    batch = monitor.next_batch(one)
    obs = np.asarray(batch.obs[2].obs, float)[:, :, 0]  # [T + 1, B, 4]
    flat = [np.asarray(x, float) for x in (batch.reward, batch.discount)]
    data = (obs[:-1].reshape(-1, 4), np.asarray(batch.action), *flat, obs[1:].reshape(-1, 4))
    return monitor.measure(state), net, data


def test_the_meter_equals_the_jacobian_of_the_update_in_numpy(measured):
    report, net, data = measured
    update, jacobian = numpy_jacobian(net, data)
    symmetric = (jacobian + jacobian.T) / 2
    spectrum, vectors = np.linalg.eigh(symmetric)
    scale = np.abs(spectrum).max()
    close = {"atol": 2e-4 * scale, "rtol": 2e-4}
    np.testing.assert_allclose(report.largest.value, spectrum[-1], **close)
    np.testing.assert_allclose(report.smallest, spectrum[0], **close)
    np.testing.assert_allclose(report.update_norm, np.linalg.norm(update), rtol=1e-4)
    along = update / np.linalg.norm(update)
    np.testing.assert_allclose(report.update.value, along @ symmetric @ along, **close)
    final, inner = net.final, ~net.final
    np.testing.assert_allclose(report.final.value, np.linalg.eigvalsh(symmetric[final][:, final])[-1], **close)
    np.testing.assert_allclose(report.inner.value, np.linalg.eigvalsh(symmetric[inner][:, inner])[-1], **close)
    penalty = np.where(final, 1.01 * (0.99 / 2) ** 2, 0.01)
    wanted = np.linalg.eigvalsh(symmetric - np.diag(penalty))[-1]
    np.testing.assert_allclose(report.regularised.value, wanted, **close)
    assert (report.parameters, report.transitions) == (len(net.phi), 64)
    assert spectrum[-1] - spectrum[-2] > 1e-3 * scale  # the worst direction is one: its split can be compared
    x, action, _, discount, after = data
    v = vectors[:, -1]
    g = net.gradients(net.phi, x, action) @ v
    g_next = net.gradients(net.phi, after, net.q(net.phi, after).argmax(1)) @ v
    off_policy = (discount * g_next * g - g * g).mean()
    np.testing.assert_allclose(report.largest.off_policy, off_policy, atol=2e-3 * scale)
    np.testing.assert_allclose(report.largest.nonlinear, spectrum[-1] - off_policy, atol=2e-3 * scale)
    np.testing.assert_allclose(report.largest.final_share, (v[final] ** 2).sum(), atol=1e-2)


def test_the_meter_knows_what_the_run_has(measured):
    setting = measured[0].setting
    assert setting.norm == "layer" and setting.l2 == Regulariser(0.01, 0.0)
    # Six of ten updates; ε falls from 1 to 0.2 in the first two.
    assert setting.epsilon == pytest.approx(0.2)
    bare = build(tiny({"network.hidden": ()}))
    one = jax.tree.map(lambda x: x[0], jax.jit(jax.vmap(bare.init_one))(bare.seeds))
    monitor = Monitor(bare, transitions=8, iterations=2)
    assert monitor.setting(one).norm == "none"  # no hidden layer, so nothing that could be normalised
    assert monitor.final is None  # there is no other layer than the final one


def test_stability_command(finished_run, capsys):
    assert main(["stability", str(finished_run.run), "--transitions", "64", "--iterations", "10", "--index", "1"]) == 0
    said = capsys.readouterr().out
    assert said.split(":")[0] in ("STABLE", "UNSTABLE", "NEUTRAL") and "after 640 steps" in said
    written = json.loads((finished_run.run / "stability.json").read_text())
    assert written["step"] == 640 and {"largest", "regularised", "final", "inner"} <= written.keys()


def test_stability_during_training(tmp_path):
    quiet = Progress(quiet=True)
    with_meter = pqn.train(tiny({"log.stability": 2}), out=tmp_path / "with", progress=quiet)
    rows = [json.loads(line) for line in (with_meter.run / "metrics.jsonl").read_text().splitlines()]
    found = [row for row in rows if row["kind"] == "stability"]
    assert [row["update"] for row in found] == [5, 10] and all(row["smallest"] < 0 for row in found)
    without = pqn.train(tiny(), out=tmp_path / "without", progress=quiet)
    assert with_meter.summary["eval_return"] == without.summary["eval_return"]  # measuring changes nothing


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["theory", "bairds"], "there is no experiment 'bairds'; did you mean 'baird'?"),
        (["theory", "baird", "--arms", "layr"], "did you mean 'layer'?"),
        (["theory", "baird", "--width", "1"], "width is 1: LayerNorm needs at least 2 hidden units"),
        (["theory", "deepsea", "--depth", "1"], "depth is 1: DeepSea needs at least 2 rows"),
        (["stability", "nowhere"], "nowhere is not a run directory"),
    ],
)
def test_mistakes_get_one_sentence(words, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1


def test_stability_of_a_run_without_parameters(tmp_path, capsys):
    from pqn.runs.directory import RunDir

    with RunDir.create(tmp_path / "run") as run:
        run.write_json("config.json", tiny().to_dict())
    assert main(["stability", str(tmp_path / "run")]) == 2
    assert "there is no checkpoint" in capsys.readouterr().err
    assert main(["stability", str(tmp_path / "run"), "--index", "3"]) == 2
    assert "has 1 seeds, numbered from 0" in capsys.readouterr().err


def test_theory_command_writes_json_and_figure(tmp_path, capsys):
    options = {"--arms": "none layer+l2", "--kinds": "expected", "--updates": "200", "--records": "10", "--seeds": "2"}
    words = ["theory", "baird", *(w for name, value in options.items() for w in (name, *value.split())), "--out"]
    assert main([*words, str(tmp_path)]) == 0
    content = json.loads((tmp_path / "baird.json").read_text())
    assert content["provenance"]["command"].startswith("pqn theory baird --arms none layer+l2")
    assert (tmp_path / "baird.png").exists()


@pytest.mark.parametrize("experiment", ["baird", "lemma", "deepsea"])
def test_a_long_command_says_where_it_is(experiment, tmp_path, monkeypatch, capsys):
    def at_once(key, chain, norm, gamma, width, config):  # the lemma's Lanczos takes long to compile
        return dict.fromkeys(lemma.QUANTITIES, jnp.asarray(1.0 / width))

    monkeypatch.setattr(lemma, "measure", at_once)
    small = {
        "baird": "--arms layer none --kinds expected --updates 20 --records 2 --seeds 1",
        "lemma": "--widths 8 16 --fit-from 8 --norms layer none --seeds 1 --states 3 --features 2",
        "deepsea": "--depth 2 --norms layer none --ensemble 2 --hidden 2 --seeds 1 --episodes 12 --chunk 4 "
        "--min-replay 2 --batch-size 2",
    }
    assert main(["theory", experiment, *small[experiment].split(), "--out", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    for norm in ("layer", "none"):
        assert norm in captured.err
    json.loads(captured.out[: captured.out.rindex("}") + 1])  # stdout has the result and the paths, nothing else


@pytest.mark.parametrize("where", ["", "a-file", "a-file/below", "nul\0name"])
def test_results_that_could_not_be_written_are_refused_before_the_work(where, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").write_text("")

    def never(*_, **__):
        raise AssertionError("the work began")

    monkeypatch.setattr("pqn.experiments.baird.run", never)
    assert main(["theory", "baird", "--out", where]) == 2
    error = capsys.readouterr().err
    assert "--out" in error and error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a-file"]


def test_a_result_is_printed_even_if_its_files_fail_at_the_end(tmp_path, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pqn.experiments.record.write_json", full)
    words = "--arms layer --kinds expected --updates 20 --records 2 --seeds 1"
    assert main(["theory", "baird", *words.split(), "--out", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert "growth_median" in captured.out and "the disk is full" in captured.err
