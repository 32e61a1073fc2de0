"""Draws the figures of a bench: the JSON file that it wrote becomes PNG files beside it.

The bench calls this itself, since git does not keep the JSON. Again, while that file is there:

python bench/plot.py bench/results/ligo-read.json
"""

from __future__ import annotations

import json
import statistics
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

COLUMNS = 4
KINDS = {"X:FAST": "16 kHz, 4 B", "X:MEDIUM": "2 kHz, 4 B", "X:SLOW": "256 Hz, 2 B"}


def main() -> None:
    """Draw the file that is named, or the one that stdin names in JSON."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else json.load(sys.stdin)["path"])
    bench = json.loads(path.read_text())
    drawn = [str(one) for one in DRAW[bench["bench"]](bench["figures"], path)]
    print(json.dumps(drawn))  # noqa: T201 (its only output)


def draw_read(figures: dict[str, Any], path: Path) -> list[Path]:
    """Draw the speed of each format for each length of frames: cold and warm."""
    drawn = []
    for state in ("cold", "warm"):
        tests = [test for test in figures["tests"] if test["reads"][0][f"{state}_s"]]
        if not tests:
            continue
        figure, axes = plt.subplots(1, len(KINDS), figsize=(13, 4.5), sharey=True)
        for axis, (prefix, kind) in zip(axes, KINDS.items(), strict=True):
            draw_speeds(axis, tests, prefix, f"{state}_s")
            axis.set_title(kind)
        axes[0].set_ylabel(f"MB/s of one channel of {figures['channels']}, {state}")
        axes[-1].legend(fontsize="small")
        drawn.append(save(figure, path.with_name(f"{path.stem}-{state}.png")))
    return drawn


def draw_speeds(axis: Axes, tests: list[dict[str, Any]], prefix: str, state: str) -> None:
    """Draw one kind of channel: a line per format."""
    labels = [
        f"{test['layout']['frame_s']} s"
        + (f" x{test['layout']['frames_per_file']}" * (test["layout"]["frames_per_file"] > 1))
        for test in tests
    ]
    speeds: dict[str, list[float]] = {}
    for test in tests:
        for read in test["reads"]:
            if read["channel"].startswith(prefix) and read[state]:
                speed = read["bytes"] / 1e6 / statistics.median(read[state])
                speeds.setdefault(read["format"], []).append(speed)
    for name, values in sorted(speeds.items()):
        axis.plot(labels, values, marker="o", label=name)
    axis.set_yscale("log")
    axis.set_xlabel("frames of")
    axis.grid(visible=True, which="both", alpha=0.3)


def draw_space(figures: dict[str, Any], path: Path) -> list[Path]:
    """Draw what gzip and each codec leave of each kind of frames."""
    figure, axis = plt.subplots(figsize=(10, 4.5))
    kinds = figures["kinds"]
    names = ["gzip -1"] + [one["coding"] for one in kinds[0]["codecs"]]
    for place, kind in enumerate(kinds):
        sizes = [kind["gzip_bytes"] or 0] + [one["file_bytes"] for one in kind["codecs"]]
        width = 0.8 / len(kinds)
        at = [index + (place - (len(kinds) - 1) / 2) * width for index in range(len(sizes))]
        shares = [size * 100 / kind["raw_bytes"] for size in sizes]
        axis.bar(at, shares, 0.9 * width, label=kind["name"])
    axis.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axis.set_ylabel("percent of raw")
    axis.legend()
    axis.grid(visible=True, axis="y", alpha=0.3)
    return [save(figure, path.with_suffix(".png"))]


def draw_codecs(results: dict[str, list[dict[str, Any]]], path: Path) -> list[Path]:
    """Draw ratio against speed for each kind of data: encoding and, fainter, decoding."""
    figures = results["codings"]
    kinds = list(dict.fromkeys(one["data"] for one in figures))
    rows = -(-len(kinds) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(4.2 * COLUMNS, 3.2 * rows), squeeze=False)
    for axis in axes.flat[len(kinds) :]:
        axis.set_visible(False)
    for axis, kind in zip(axes.flat, kinds, strict=False):
        for one in figures:
            if one["data"] != kind or one["coding"].startswith("auto"):
                continue
            encode, decode = (one[f"{way}code_bytes_per_second"] / 1e9 for way in ("en", "de"))
            (line,) = axis.plot([encode], [one["ratio"]], marker="o", linestyle="none")
            axis.plot([encode, decode], [one["ratio"]] * 2, color=line.get_color(), alpha=0.3)
            axis.annotate(one["coding"], (encode, one["ratio"]), fontsize="xx-small")
        axis.set(title=f"{kind} ({one['element']})", xscale="log", yscale="log")
        axis.title.set_fontsize("x-small")
        axis.grid(visible=True, which="both", alpha=0.3)
    figure.supxlabel("GB/s of one thread: encoding (point) to decoding (end of the line)")
    figure.supylabel("ratio")
    return [save(figure, path.with_suffix(".png"))]


def draw_targets(figures: dict[str, Any], path: Path) -> list[Path]:
    """Draw the highest rates beside their limits, and what each shared node took in each run."""
    figure, (rates, nodes) = plt.subplots(1, 2, figsize=(13, 4.5))
    # Where nothing was recorded without loss, there is no rate.
    found = {one["name"]: one["rounds"] for one in figures["found"] if one["rounds"]}
    speeds = {"until durable": "durable_bytes_per_second", "limit": "limit_bytes_per_second"}
    draw_bars(
        rates,
        [textwrap.fill(name, 18) for name in found],
        {
            name: [statistics.median(one[key] for one in rounds) for rounds in found.values()]
            for name, key in speeds.items()
        },
    )
    if shared := max(figures["shared"], key=lambda one: one["nodes"], default=None):
        for node in range(shared["nodes"]):
            took = [run["node_bytes"][node] / 1e6 for run in shared["runs"]]
            nodes.plot(range(1, len(took) + 1), took, marker="o", label=f"node {node + 1}")
        nodes.set(xlabel=f"run of {shared['builders']} builders", ylabel="MB in a node", ylim=0)
        nodes.legend(fontsize="small")
        nodes.grid(visible=True, alpha=0.3)
    else:
        nodes.set_visible(False)
    return [save(figure, path.with_suffix(".png"))]


def draw_store(figures: dict[str, Any], path: Path) -> list[Path]:
    """Draw a node's rate for each size of files, beside TCP and direct writes alone."""
    figure, axis = plt.subplots(figsize=(10, 4.5))
    stored = figures["stored"]
    names = [f"{one['streams']} x {one['file_bytes'] / 1e9:.3g} GB" for one in stored]
    speeds = {"to the node's disk": "bytes_per_second", "TCP": "tcp", "disk": "direct_write"}
    series = {name: [one[key] for one in stored] for name, key in speeds.items()}
    draw_bars(axis, names, series)
    return [save(figure, path.with_suffix(".png"))]


def draw_bars(axis: Axes, names: list[str], speeds: dict[str, list[float]]) -> None:
    """Draw a group of bars for each name, in GB/s."""
    width = 0.8 / len(speeds)
    for place, (series, values) in enumerate(speeds.items()):
        at = [index + (place - (len(speeds) - 1) / 2) * width for index in range(len(names))]
        axis.bar(at, [value / 1e9 for value in values], 0.9 * width, label=series)
    axis.set_xticks(range(len(names)), names, fontsize="small")
    axis.set_ylabel("GB/s")
    axis.legend(fontsize="small")
    axis.grid(visible=True, axis="y", alpha=0.3)


def save(figure: Any, path: Path) -> Path:  # noqa: ANN401 (a figure, or a part of one)
    """Write a figure."""
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


DRAW: dict[str, Callable[[Any, Path], list[Path]]] = {
    "codecs": draw_codecs,
    "ligo-read": draw_read,
    "ligo-space": draw_space,
    "store": draw_store,
    "targets": draw_targets,
}

if __name__ == "__main__":
    main()
