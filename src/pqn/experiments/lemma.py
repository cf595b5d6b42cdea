"""The LayerNorm lemma in numbers: how the stability terms scale with the width k of the network.

For test vectors v = (v_w, v_M) the lemma says, with LayerNorm in its convention,

    C_OffPolicy(v)  ≤ (γL/2)² ‖v_w‖² + O(‖v_M‖²/k)
    C_Nonlinear(v)  = O(‖v‖²/√k)

and the theorem that η(γL/2)² on w and η−1 on M then make (J + Jᵀ)/2 negative definite from some width on. Measured
here, each a supremum over unit v, hence an extreme eigenvalue found by Lanczos:

    off_w         max C_OffPolicy over v = (v_w, 0)          bound (γL/2)², at every width
    off_M         max |C_OffPolicy| over v = (0, v_M)        slope −1
    nonlinear     max |C_Nonlinear| over all v               slope −1/2
    largest       max vᵀJv;   regularised: with the ℓ2 of the theorem
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from pqn.experiments import record
from pqn.experiments.configs import LemmaConfig
from pqn.experiments.figures import COLOUR, LABELS, band
from pqn.report.style import LINES, figure_file
from pqn.theory.critic import LIPSCHITZ, CriticParams, critic_fn, init_critic
from pqn.theory.jacobian import make_operator
from pqn.theory.lanczos import lanczos
from pqn.theory.mdps import Chain, baird_chain, expected_batch, random_chain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUANTITIES = ("off_w", "off_M", "nonlinear", "largest", "regularised")
PREDICTED = {"off_M": -1.0, "nonlinear": -0.5}
MDPS = ("random", "baird")


def measure(
    key: Array, chain: Chain, norm: Array, gamma: float | Array, width: int, config: LemmaConfig
) -> dict[str, Array]:
    """The five quantities for one random critic on one chain; `norm` is an index into config.norms. Jittable."""
    key_init, key_start = jax.random.split(key)
    params = init_critic(key_init, width, chain.features.shape[1], config.weight_norm)
    branches = [critic_fn(name, config.pre, config.post) for name in config.norms]

    def q_fn(params: CriticParams, x: Array) -> Array:  # the norm as data: one compilation serves all of them
        return jax.lax.switch(norm, branches, params, x)

    op = make_operator(q_fn, params, expected_batch(chain, gamma))
    flat, _ = ravel_pytree(params)
    final, _ = ravel_pytree(CriticParams(w=jnp.ones_like(params.w), M=jnp.zeros_like(params.M)))
    bound = (gamma * LIPSCHITZ[config.post] / 2) ** 2
    penalty = config.eta * bound * final + (config.eta - 1) * (1 - final)
    start = jax.random.normal(key_start, flat.shape, flat.dtype)
    everything = jnp.ones_like(flat)

    def ends(parts: Array, mask: Array) -> tuple[Array, Array]:
        def matvec(v: Array) -> Array:
            return parts[0] * op.off_policy(v) + parts[1] * op.nonlinear(v) - parts[2] * penalty * v

        pairs = lanczos(matvec, start, config.iterations, key_start, mask)
        return pairs.largest, jnp.maximum(jnp.abs(pairs.largest), jnp.abs(pairs.smallest))

    # One Lanczos, mapped over the parts of (J + Jᵀ)/2 and the parameters it sees: compiled once, not five times.
    parts = jnp.asarray([[1, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 1]], flat.dtype)
    masks = jnp.stack([final, 1 - final, everything, everything, everything])
    top, magnitude = jax.lax.map(lambda pm: ends(*pm), (parts, masks))
    return {"off_w": top[0], "off_M": magnitude[1], "nonlinear": magnitude[2], "largest": top[3], "regularised": top[4]}


def slope(widths: Sequence[int], y: np.ndarray, fit_from: int) -> float:
    """Least-squares slope of log(median over seeds of y [S, K]) against log k, over the widths ≥ fit_from."""
    keep = np.asarray(widths) >= fit_from
    middle = np.log(np.maximum(np.median(y, axis=0)[keep], np.finfo(np.float32).tiny))
    return float(np.polyfit(np.log(np.asarray(widths)[keep]), middle, 1)[0])


@dataclass(frozen=True)
class LemmaResult:
    """Width sweep and off-policiness sweep."""

    config: LemmaConfig
    width: dict[str, dict[str, dict[str, np.ndarray]]]  # mdp → norm → quantity → [S, widths]
    shift: dict[str, dict[str, np.ndarray]]  # norm → quantity → [S, gammas, shifts], random chains
    seconds: float

    def slopes(self) -> dict[str, dict[str, dict[str, float]]]:
        """Log-log slopes against width: mdp → norm → quantity, for the quantities the lemma predicts."""
        fit = partial(slope, self.config.widths, fit_from=self.config.fit_from)
        return {
            mdp: {norm: {q: fit(found[q]) for q in ("off_M", "nonlinear")} for norm, found in norms.items()}
            for mdp, norms in self.width.items()
        }

    def summary(self) -> dict[str, object]:
        """Slopes, the bound (γL/2)², and the range of every quantity at the widest network."""
        widest = {
            mdp: {
                norm: {q: [float(found[q][:, -1].min()), float(found[q][:, -1].max())] for q in QUANTITIES}
                for norm, found in norms.items()
            }
            for mdp, norms in self.width.items()
        }
        return {"predicted": PREDICTED, "slopes": self.slopes(), "off_w_bound": self.bound(), "widest": widest}

    def bound(self) -> float:
        """(γL/2)², the lemma's bound on C_OffPolicy along the final layer."""
        return (self.config.gamma * LIPSCHITZ[self.config.post] / 2) ** 2

    def save(self, directory: str | Path, command: str = "pqn theory lemma") -> list[Path]:
        """Writes lemma.json, lemma.png and lemma-offpolicy.png into `directory`, and returns their paths."""
        directory = Path(directory)
        content = {
            "provenance": record.made_by(command, self.seconds),
            "config": asdict(self.config),
            "summary": self.summary(),
            "width": self.width,
            "shift": self.shift,
        }
        return [
            record.write_json(directory / "lemma.json", content),
            draw_width(self, directory / "lemma.png"),
            draw_shift(self, directory / "lemma-offpolicy.png"),
        ]


def chains(keys: Array, mdp: str, shift: float | Array, config: LemmaConfig) -> Chain:
    """One chain per key, stacked: fully off-policy random ones, or Baird's S times."""
    if mdp == "baird":
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (len(keys), *x.shape)), baird_chain())
    return jax.vmap(lambda key: random_chain(key, config.states, config.features, shift))(keys)


Tell = Callable[[str], None]


def _tell(progress: Tell | None, text: str) -> None:
    if progress is not None:
        progress(text)


def sweep_width(config: LemmaConfig, mdp: str, progress: Tell | None = None) -> dict[str, dict[str, np.ndarray]]:
    """norm → quantity → values against width, [S, widths]."""
    keys = jax.vmap(jax.random.key)(config.seed + jnp.arange(config.seeds))
    data = chains(keys, mdp, 1.0, config)
    columns = []
    for width in config.widths:
        one = partial(measure, gamma=config.gamma, width=width, config=config)

        # lax.map rather than vmap: a Lanczos basis at width 4096 is large enough once.
        def over_seeds(norm: Array, one=one) -> dict[str, Array]:
            return jax.lax.map(lambda kc: one(kc[0], kc[1], norm), (keys, data))

        compiled = jax.jit(over_seeds)  # once for all norms: they are data
        columns.append([])
        for i, name in enumerate(config.norms):
            _tell(progress, f"{mdp} chains, width {width} of up to {max(config.widths)}, {name}")
            columns[-1].append(jax.device_get(compiled(jnp.asarray(i))))
    return {
        name: {q: np.stack([column[i][q] for column in columns], axis=1) for q in QUANTITIES}
        for i, name in enumerate(config.norms)
    }


def sweep_shift(config: LemmaConfig, progress: Tell | None = None) -> dict[str, dict[str, np.ndarray]]:
    """norm → quantity → values against discount and off-policiness on random chains, [S, gammas, shifts]."""
    grid = jnp.meshgrid(jnp.arange(config.seeds), jnp.asarray(config.gammas), jnp.asarray(config.shifts), indexing="ij")
    points = [axis.reshape(-1) for axis in grid]
    keys = jax.vmap(jax.random.key)(config.seed + jnp.arange(config.seeds))

    def one(norm: Array, point: tuple[Array, Array, Array]) -> dict[str, Array]:
        seed, gamma, shift = point
        chain = random_chain(keys[seed], config.states, config.features, shift)
        return measure(keys[seed], chain, norm, gamma, config.sweep_width, config)

    compiled = jax.jit(lambda norm: jax.lax.map(lambda point: one(norm, point), points))
    found = {}
    for i, name in enumerate(config.norms):
        _tell(progress, f"{len(points[0])} mixtures of discount and off-policiness, width {config.sweep_width}, {name}")
        flat = jax.device_get(compiled(jnp.asarray(i)))
        found[name] = {q: flat[q].reshape(grid[0].shape) for q in QUANTITIES}
    return found


def run(config: LemmaConfig | None = None, progress: Tell | None = None) -> LemmaResult:
    """Both sweeps for every norm; `progress` is told one line before each part of the work."""
    config = LemmaConfig() if config is None else config
    config.validate()
    began = time.perf_counter()
    width = {mdp: sweep_width(config, mdp, progress) for mdp in MDPS}
    shift = sweep_shift(config, progress)
    return LemmaResult(config, width, shift, time.perf_counter() - began)


_TITLES = {
    "off_w": "max C_OffPolicy, final layer w",
    "off_M": "max |C_OffPolicy|, inner weights M",
    "nonlinear": "max |C_Nonlinear|",
    "regularised": "largest eigenvalue with ℓ2",
}
_MDP_NAMES = {"random": "random chains", "baird": "Baird"}


def draw_width(result: LemmaResult, path: Path) -> Path:
    """The terms against width, with the slopes the lemma predicts."""
    with figure_file(path, (13.5, 6.4)) as figure:
        axes = figure.subplots(len(result.width), len(_TITLES), sharex=True, squeeze=False)
        for row, mdp in enumerate(result.width):
            for each, quantity in zip(axes[row], _TITLES, strict=True):
                _draw_quantity(each, result, mdp, quantity)
            axes[row, 0].set_ylabel(_MDP_NAMES[mdp])
        for column, title in zip(axes.T, _TITLES.values(), strict=True):
            column[0].set_title(title, fontsize=9)
            column[-1].set_xlabel("width k")
        legends = [each.get_legend_handles_labels() for each in axes[-1]]
        shown = {label: handle for handles, labels in legends for handle, label in zip(handles, labels, strict=True)}
        figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=len(shown))
        figure.suptitle(f"The LayerNorm lemma against width, {result.config.seeds} seeds (median, interquartile range)")
    return path


def _draw_quantity(axes: Axes, result: LemmaResult, mdp: str, quantity: str) -> None:
    widths = np.asarray(result.config.widths)
    for norm, found in result.width[mdp].items():
        band(axes, widths, found[quantity], COLOUR[norm], LABELS[norm])
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    if quantity in PREDICTED and "layer" in result.width[mdp]:
        slope = PREDICTED[quantity]
        start = np.median(result.width[mdp]["layer"][quantity][:, 0])
        style = {-1.0: "--", -0.5: "-."}[slope]
        label = f"predicted slope {slope:g}"
        axes.plot(widths, start * (widths / widths[0]) ** slope, f"k{style}", linewidth=1, label=label)
    if quantity == "off_w":
        axes.axhline(result.bound(), color="k", linestyle=":", linewidth=1, label="bound (γL/2)²")
    if quantity == "regularised":
        axes.set_yscale("symlog", linthresh=0.1)
        axes.axhline(0, color="k", linewidth=1)


def draw_shift(result: LemmaResult, path: Path) -> Path:
    """The final-layer term and the regularised top eigenvalue against off-policiness, by discount and norm."""
    gammas = result.config.gammas
    styles = [LINES[-1 - index % len(LINES)] for index in range(len(gammas))]
    with figure_file(path, (10.5, 3.8)) as figure:
        left, right = figure.subplots(1, 2)
        for axes, quantity in ((left, "off_w"), (right, "regularised")):
            for norm in [norm for norm in ("none", "layer") if norm in result.shift]:
                for column, gamma in enumerate(gammas):
                    y = result.shift[norm][quantity][:, column]
                    label = f"{LABELS[norm]}, γ = {gamma:g}"
                    band(axes, np.asarray(result.config.shifts), y, COLOUR[norm], label, styles[column])
            axes.set_xlabel("off-policiness ρ")
        left.set_yscale("symlog", linthresh=1e-3)
        left.set_ylim(top=30)  # room for the legend
        left.set_title(_TITLES["off_w"], fontsize=9)
        right.set_yscale("symlog", linthresh=0.1)
        right.axhline(0, color="k", linewidth=1)
        right.set_title("largest eigenvalue with the theorem's ℓ2", fontsize=9)
        for gamma, style in zip(gammas, styles, strict=True):
            label = f"bound (γL/2)², γ = {gamma:g}"
            left.axhline((gamma / 2) ** 2, color="k", linestyle=style, linewidth=0.8, label=label)
        left.legend(handles=left.lines[-len(gammas) :], fontsize=6.5, loc="upper left")
        figure.legend(*right.get_legend_handles_labels(), loc="outside right center")
        figure.suptitle(f"Random chains, width {result.config.sweep_width}")
    return path
