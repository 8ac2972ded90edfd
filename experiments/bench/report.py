"""Tables, JSON and the growth figure."""

import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from npdl.files import write_atomically
from npdl_study.plots import style

from .cases import flops
from .harness import paired_ratio
from .mkl import as_on_intel

COLOURS = {"torch": style.VERMILION, "npdl": style.BLUE}
LINES = {"equal": style.DASHES[0], "less": style.DASHES[1]}
AXES = {"batch": "batch (sequences)", "length": "length (tokens)", "width": "width (numbers)",
        "layers": "layers"}


def machine():
    """The processor, the cores and the versions that the figures belong to."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            name = next(line.split(":")[1].strip() for line in file if "model name" in line)
    except (OSError, StopIteration):
        pass
    about = {"processor": name, "cores": os.cpu_count(), "python": platform.python_version()}
    for package in ("numpy", "torch"):
        try:
            about[package] = version(package)
        except PackageNotFoundError:
            about[package] = None
    return about


def best_torch(results, at_its_best=False):
    """The fastest eager torch variant that does all the work, as torch is installed, or None; with
    `at_its_best` also those that are compiled or need a setting of their environment."""
    rivals = [r for r in results if r.variant.kind == "torch" and r.variant.work == "equal"
              and (r.ms or r.rates) and (at_its_best or not (
                  r.variant.options.get("compiled") or r.variant.environment))]
    return min(rivals, key=lambda r: r.median if r.ms else -r.rate, default=None)


def step_table(case, results):
    """Markdown: one row for each variant."""
    reference, strongest = best_torch(results), best_torch(results, at_its_best=True)
    floors = [r.median for r in results if r.variant.kind == "floor" and r.ms
              and not r.variant.options.get("torch")]
    lines = [f"### {case.label()}", "",
             f"{flops(case) / 1e9:.2f} GFLOP of matrix products a step at equal work.", "",
             "| variant | work | median ms | min | quartiles | / best torch | in rounds "
             "| / torch at its best | GFLOP/s | GEMM share | peak MB |",
             "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for result in results:
        if not result.ms:
            continue
        first, median, third = result.quartiles()
        ratio = within = least = share = rate = "-"
        if reference is not None and result.variant.work != "floor":
            ratio, least = (f"{median / each.median:.2f}" for each in (reference, strongest))
            _, low, high = paired_ratio(result, reference)
            within = f"{low:.2f}-{high:.2f}"
        if result.variant.work != "less":
            rate = f"{flops(case) / median / 1e6:.0f}"
        if result.variant.kind == "npdl" and result.variant.work == "equal" and floors:
            share = f"{100 * min(floors) / median:.0f} %"
        lines.append(f"| {result.variant.name} | {result.variant.work} | {median:.2f} "
                     f"| {min(result.ms):.2f} | {first:.2f}-{third:.2f} | {ratio} | {within} "
                     f"| {least} | {rate} | {share} | {result.peak_mb:.0f} |")
    lines += [f"| {r.variant.name} | failed: {r.error} | | | | | | | | | |"
              for r in results if r.error]
    return "\n".join([*lines, "", as_on_intel()[1]])


def sweep_table(case, results, copies):
    lines = [f"### {case.label()}; {copies} processes at once, one thread each", "",
             "| variant | work | steps/s in total | / best torch | peak MB each |",
             "|---|---|--:|--:|--:|"]
    rows = [result.as_dict() for result in results]
    reference = best_torch(results)
    best = reference.as_dict()["steps_per_s"] if reference else None
    for row in rows:
        if "steps_per_s" in row:
            ratio = f"{row['steps_per_s'] / best:.2f}" if best else "-"
            lines.append(f"| {row['name']} | {row['work']} | {row['steps_per_s']:.1f} | {ratio} "
                         f"| {row['peak_mb']:.0f} |")
    return "\n".join(lines)


def growth_table(points):
    """`points`: [(model, axis, value, rows)] with rows as Result.as_dict gives them."""
    names = list(dict.fromkeys(row["name"] for *_, rows in points for row in rows))
    lines = ["Each cell: milliseconds a step / peak MB.", "",
             "| model | axis | value | " + " | ".join(names) + " |",
             "|---|---|--:|" + "--:|" * len(names)]
    for model, axis, value, rows in points:
        by_name = {row["name"]: row for row in rows}
        cells = []
        for name in names:
            row = by_name.get(name, {})
            text = f"{row['median_ms']:.1f} / {row['peak_mb']:.0f}" if "median_ms" in row else ""
            cells.append(text)
        lines.append(f"| {model} | {axis} | {value} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def growth_figure(points, path, field="median_ms", ylabel="time of one step (ms)"):
    """Log-log, one row of panels for each model, one panel for each axis."""
    models = list(dict.fromkeys(point[0] for point in points))
    axes = list(dict.fromkeys(point[1] for point in points))
    figure = style.figure(10, 2.8 * len(models) + 1.6, "")
    panels = figure.subplots(len(models), len(axes), squeeze=False, sharey="row")
    for row, model in zip(panels, models, strict=True):
        for panel, axis in zip(row, axes, strict=True):
            mine = [p for p in points if p[0] == model and p[1] == axis]
            _growth_lines(panel, mine, field)
            panel.set_xscale("log", base=2)
            panel.set_yscale("log")
            named = [p[2] for p in mine][:: 1 + (len(mine) > 6)]        # side by side in a panel
            panel.set_xticks(named, map(str, named))
            panel.minorticks_off()
            style.dress(panel, AXES[axis], "")
        row[0].set_ylabel(f"{model.upper()}: {ylabel}", color=style.INK)
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3,
                  frameon=False, labelcolor=style.INK, handlelength=3)
    style.save(figure, path)


def _growth_lines(panel, points, field):
    drawn = {}
    for _, _, value, rows in points:
        for row in rows:
            if field in row:
                drawn.setdefault((row["name"], row["kind"], row["work"]), []).append(
                    (value, row[field]))
    for mark, ((name, kind, work), line) in zip(style.MARKERS, drawn.items(), strict=False):
        panel.plot(*zip(*line, strict=True), color=COLOURS[kind], linestyle=LINES[work],
                   marker=mark, markersize=5.5, linewidth=1.3, label=name,
                   markerfacecolor="white" if work == "less" else COLOURS[kind])


def write(folder, name, markdown, record):
    """NAME.md and NAME.json in `folder`."""
    os.makedirs(folder, exist_ok=True)
    texts = {"md": markdown, "json": json.dumps({"machine": machine(), **record}, indent=1)}
    for kind, text in texts.items():
        content = text + "\n"
        write_atomically(os.path.join(folder, f"{name}.{kind}"),
                         lambda file, content=content: file.write(content.encode()))
    print(f"written: {os.path.join(folder, name)}.md, .json", file=sys.stderr)
