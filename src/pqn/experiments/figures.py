"""Figures of the theory experiments. Matplotlib is imported only when a figure is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pqn.experiments.baird import BairdResult
    from pqn.experiments.deepsea import DeepSeaResult
    from pqn.experiments.lemma import LemmaResult

# Okabe-Ito: eight colours that stay apart for colour-blind readers.
COLOURS = ("#000000", "#E69F00", "#D55E00", "#CC79A7", "#56B4E9", "#0072B2", "#009E73", "#999999")

LABELS = {
    "linear": "linear",
    "linear+l2": "linear + ℓ2",
    "none": "no norm",
    "l2": "ℓ2 only",
    "layer": "LayerNorm",
    "layer+l2": "LayerNorm + ℓ2",
    "batch": "BatchNorm",
    "scale": "1/√k only",
    "layer_unscaled": "LayerNorm without 1/√k",
}


def _plt() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True})
    plt.rcParams.update({"grid.alpha": 0.25, "legend.frameon": False, "figure.dpi": 130})
    return plt


def _save(plt: Any, figure: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight")
    plt.close(figure)
    return path


def _band(axis: Any, x: np.ndarray, y: np.ndarray, colour: str, label: str, style: str = "-") -> None:
    """Median over seeds (axis 0 of y) with the interquartile range."""
    low, middle, high = np.percentile(y, [25, 50, 75], axis=0)
    axis.plot(x, middle, style, color=colour, label=label, lw=1.6)
    axis.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)


def baird(result: BairdResult, path: Path) -> Path:
    """Parameter norm and value error over updates, for expected and sampled updates."""
    plt = _plt()
    rows = len(result.curves)
    figure, axes = plt.subplots(rows, 2, figsize=(9.5, 3.1 * rows), sharex=True, squeeze=False)
    for row, (kind, arms) in enumerate(result.curves.items()):
        for colour, (arm, curves) in zip(COLOURS, arms.items(), strict=False):
            growth = curves.norm / curves.norm[:, :1]
            # A run counts as lost at 1e8; drawing it further would only flatten everything else.
            style = "--" if arm.endswith("l2") else "-"
            _band(axes[row, 0], result.updates(), np.minimum(growth, 1e6), colour, LABELS[arm], style)
            _band(axes[row, 1], result.updates(), np.clip(curves.error, 1e-10, 1e6), colour, LABELS[arm], style)
        for axis in axes[row]:
            axis.set_yscale("log")
        axes[row, 0].set_ylabel(f"{kind} updates\n‖φ‖ / initial ‖φ‖")
        axes[row, 0].set_ylim(5e-3, 2e6)
        axes[row, 1].set_ylabel("value error (rms)")
        axes[row, 1].set_ylim(1e-6, 1e4)
        axes[row, 0].axhline(100, color="grey", ls=":", lw=1)
        axes[row, 1].axhline(1e-2, color="grey", ls=":", lw=1)
    for axis in axes[-1]:
        axis.set_xlabel("updates")
    axes[0, 1].legend(fontsize=7.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.suptitle(f"Baird's counterexample, {result.config.seeds} seeds (median, interquartile range)", y=0.95)
    return _save(plt, figure, path)


_LEMMA_TITLES = {
    "off_w": "max C_OffPolicy, final layer w",
    "off_M": "max |C_OffPolicy|, inner weights M",
    "nonlinear": "max |C_Nonlinear|",
    "regularised": "largest eigenvalue with ℓ2",
}


def lemma_width(result: LemmaResult, path: Path) -> Path:
    """The terms against width, with the slopes the lemma predicts."""
    plt = _plt()
    names = {"random": "random chains", "baird": "Baird"}
    figure, axes = plt.subplots(len(result.width), 4, figsize=(13.5, 6.0), sharex=True, squeeze=False)
    for row, mdp in enumerate(result.width):
        for column, quantity in enumerate(_LEMMA_TITLES):
            _lemma_panel(axes[row, column], result, mdp, quantity)
        axes[row, 0].set_ylabel(names[mdp])
    for column, title in enumerate(_LEMMA_TITLES.values()):
        axes[0, column].set_title(title, fontsize=9)
        axes[-1, column].set_xlabel("width k")
        axes[-1, column].legend(fontsize=6.5, loc="upper center", bbox_to_anchor=(0.5, -0.18))
    figure.suptitle(f"The LayerNorm lemma against width, {result.config.seeds} seeds (median, interquartile range)")
    return _save(plt, figure, path)


def _lemma_panel(axis: Any, result: LemmaResult, mdp: str, quantity: str) -> None:
    widths, summary = np.asarray(result.config.widths), result.summary()
    colours = {"none": COLOURS[2], "scale": COLOURS[1], "layer": COLOURS[5], "layer_unscaled": COLOURS[3]}
    for norm, found in result.width[mdp].items():
        _band(axis, widths, found[quantity], colours[norm], LABELS[norm])
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    if quantity in summary["predicted"] and "layer" in result.width[mdp]:
        slope = summary["predicted"][quantity]
        start = np.median(result.width[mdp]["layer"][quantity][:, 0])
        axis.plot(widths, start * (widths / widths[0]) ** slope, "k--", lw=1, label=f"predicted slope {slope:g}")
    if quantity == "off_w":
        axis.axhline(summary["off_w_bound"], color="k", ls="--", lw=1, label="bound (γL/2)²")
    if quantity == "regularised":
        axis.set_yscale("symlog", linthresh=0.1)
        axis.axhline(0, color="k", lw=1)


def lemma_shift(result: LemmaResult, path: Path) -> Path:
    """The final-layer term and the regularised top eigenvalue against off-policiness, by discount and norm."""
    plt = _plt()
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.6))
    styles = (":", "--", "-")
    colours = {"none": COLOURS[2], "layer": COLOURS[5]}
    for axis, quantity in zip(axes, ("off_w", "regularised"), strict=True):
        for norm, colour in colours.items():
            if norm not in result.shift:
                continue
            for column, gamma in enumerate(result.config.gammas):
                y = result.shift[norm][quantity][:, column]
                label = f"{LABELS[norm]}, γ = {gamma:g}"
                _band(axis, np.asarray(result.config.shifts), y, colour, label, styles[column % 3])
        axis.set_xlabel("off-policiness ρ")
    axes[0].set_yscale("symlog", linthresh=1e-3)
    axes[0].set_ylim(top=30)  # room for the legend
    axes[0].set_title("max C_OffPolicy, final layer w", fontsize=9)
    axes[1].set_yscale("symlog", linthresh=0.1)
    axes[1].axhline(0, color="k", lw=1)
    axes[1].set_title("largest eigenvalue with the theorem's ℓ2", fontsize=9)
    for gamma, style in zip(result.config.gammas, styles, strict=False):
        axes[0].axhline((gamma / 2) ** 2, color="k", ls=style, lw=0.8, label=f"bound (γL/2)², γ = {gamma:g}")
    axes[0].legend(handles=axes[0].lines[-len(result.config.gammas) :], fontsize=6.5, loc="upper left")
    axes[1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.suptitle(f"Random chains, width {result.config.sweep_width}", y=1.02)
    figure.subplots_adjust(wspace=0.25)
    return _save(plt, figure, path)


def deepsea(result: DeepSeaResult, path: Path) -> Path:
    """Episodes until solved per seed, and the share of bad episodes over time."""
    plt = _plt()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.4))
    colours = {"none": COLOURS[2], "layer": COLOURS[5], "batch": COLOURS[6]}
    for place, (norm, runs) in enumerate(result.runs.items()):
        episodes = runs.found.shape[1]
        for seed, solved in enumerate(runs.solved()):
            x = place + 0.3 * (seed / max(len(runs.found) - 1, 1) - 0.5)
            marker = "o" if solved is not None else "x"
            left.plot(x, episodes if solved is None else solved, marker, color=colours[norm], ms=5)
        share = runs.regret() / np.arange(1, episodes + 1)
        _band(right, np.arange(1, episodes + 1), share, colours[norm], LABELS[norm])
    left.set_xticks(range(len(result.runs)), [LABELS[norm] for norm in result.runs])
    left.set_ylabel("episodes until solved (× = never)")
    left.set_ylim(bottom=0)
    right.axhline(0.9, color="grey", ls=":", lw=1)
    right.set_xlabel("episodes")
    right.set_ylabel("bad episodes so far (share)")
    right.set_ylim(0, 1.02)
    right.legend(fontsize=8)
    figure.suptitle(f"DeepSea, depth {result.config.depth}, {result.config.seeds} seeds, no target network")
    return _save(plt, figure, path)
