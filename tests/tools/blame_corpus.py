"""Mistakes of meaning, and right layers in odd styles, as students write them: is blame right?

    python -m tests.tools.blame_corpus                              # the table of all of it
    python -m tests.tools.blame_corpus --layers softmax,lstm --styles tuple --show
    python -m tests.tools.blame_corpus --write DIR                  # the files, to be read
    python -m tests.tools.blame_corpus --pairs --every 8            # two mistakes in one backward

The files are tests.tools.corpus_files'.
"""

import argparse
import collections
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from npdl_study.blame.blame import blame
from npdl_study.check.gradcheck import gradcheck
from npdl_study.check.target import build
from npdl_study.step.step import step
from tests.tools.corpus_files import CORPUS, STYLES, cases, pairs


@dataclass
class Found:
    """What blame and step said of a Case."""

    case: object
    right: bool = False
    on_line: bool = False
    diagnosed: bool = False
    accused: bool = False
    named: bool = False         # not first, but among the lines of which either can mend it
    promised: str = ""          # "kept", "broken": every gradient is right with its change, or not
    seconds: float = 0.0
    report: object = None


def tried(case, folder):
    """Run blame on a Case, and step on a right one: a Found."""
    path = Path(folder) / f"{re.sub(r'[^a-z0-9]', '_', str(case).lower())}.py"
    path.write_text(case.text)
    name = f"{path}:{'net' if case.style == 'functions' else 'Net'}"
    layer, inputs, options = build(name, cache="self" if case.style == "self" else None)
    start = time.process_time()
    report = blame(layer, *inputs, **options)
    found = Found(case, report.right, promised=promise(report, case, path, name),
                  seconds=time.process_time() - start, report=report)
    if case.change.right:
        walk = step(layer, *inputs, **options)
        wrong = [mark for mark in walk.marks.values() if mark.right is False]
        asked = report.kind == "unchecked"              # a question accuses nobody
        found.accused = not (report.right or asked) or bool(wrong)
        found.diagnosed = found.on_line = not found.accused
        return found
    found.on_line = not report.right and report.line in case.lines
    found.diagnosed = bool(re.search(case.change.says, report.diagnosis, re.I)) and found.on_line
    found.named = not found.on_line and bool(set(report.either) & set(case.lines))
    found.accused = not report.right and not found.on_line and not found.named
    return found


def promise(report, case, path, name):
    """Whether every gradient is right, as a Blame says, with its new line: "kept", "broken"; or
    "" where it says no such thing."""
    if not report.new or "every gradient is right" not in report.diagnosis or ";" in report.new:
        return ""
    lines = case.text.splitlines()
    old = lines[report.line - 1]
    lines[report.line - 1] = old[: len(old) - len(old.lstrip())] + report.new
    lines[report.line : report.line - 1 + len(report.source.splitlines())] = []
    mended = path.with_name(f"mended_{path.name}")
    mended.write_text("\n".join(lines) + "\n")
    try:
        layer, inputs, options = build(name.replace(path.name, mended.name),
                                       cache="self" if case.style == "self" else None)
        return "kept" if not gradcheck(layer, *inputs, **options).wrong else "broken"
    except Exception:
        return "broken"


def run(chosen, folder, show=False):
    """[Found] of the chosen cases; what went wrong is printed with `show`."""
    results = []
    for case in chosen:
        found = tried(case, folder)
        results.append(found)
        if show and not (found.diagnosed and found.on_line and found.promised != "broken"):
            print(f"{case}: line {found.report.line} for {case.lines}, "
                  f"{found.report.kind!r} {found.promised}: {found.report.diagnosis}", flush=True)
    return results


def table(results):
    """The table in Markdown, a row for each layer."""
    rows = collections.OrderedDict()
    for found in results:
        row = rows.setdefault(found.case.change.layer.name, [0] * 8)
        own = (0, 1) if found.case.change.right else (2, 3, 4, 5, 6, 7)
        values = (1, found.accused) if found.case.change.right else (
            1, found.on_line, found.named, found.diagnosed, found.accused, found.right)
        for i, value in zip(own, values, strict=True):
            row[i] += int(value)
    rows["all"] = [sum(row[i] for row in rows.values()) for i in range(8)]
    lines = ["| layer | right files | accused | wrong files | on the line | named beside | "
             "right diagnosis | another accused | called right |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for name, (good, accused, bad, line, named, said, others, missed) in rows.items():
        lines.append(f"| {name} | {good} | {accused} | {bad} | {_share(line, bad)} | {named} | "
                     f"{_share(said, bad)} | {others} | {missed} |")
    return "\n".join(lines)


def _share(part, whole):
    return f"{part} ({100 * part / whole:.0f} %)" if whole else "-"


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.tools.blame_corpus",
                                     description="Score blame over mistakes of meaning.")
    parser.add_argument("--layers", default="", help="only these, with commas between")
    parser.add_argument("--styles", default=",".join(STYLES))
    parser.add_argument("--corpus", metavar="DIR", default=CORPUS,
                        help="layers of your own, written as those in tests/tools/corpus")
    parser.add_argument("--every", type=int, default=1, help="take one case in N")
    parser.add_argument("--only", default="", help="only cases whose name has this in it")
    parser.add_argument("--pairs", action="store_true", help="two mistakes in one backward")
    parser.add_argument("--show", action="store_true", help="print what was missed")
    parser.add_argument("--write", metavar="DIR", help="write the files there and stop")
    options = parser.parse_args(arguments)
    names = options.layers.split(",") if options.layers else ()
    make = pairs if options.pairs else cases
    chosen = [c for c in make(names, options.styles.split(","), options.corpus)
              if options.only in str(c)]
    chosen = chosen[:: options.every]
    if options.write:
        Path(options.write).mkdir(parents=True, exist_ok=True)
        for case in chosen:
            (Path(options.write) / f"{str(case).replace('/', '_')}.py").write_text(case.text)
        return
    with tempfile.TemporaryDirectory() as folder:
        results = run(chosen, folder, options.show)
    print(table(results))
    mistakes = {str(f.case.change.layer.name) + f.case.change.name for f in results
                if not f.case.change.right}
    promised = collections.Counter(found.promised for found in results)
    slowest = max(results, key=lambda found: found.seconds)
    print(f"\n{len(mistakes)} mistakes, {len(results)} files; promises kept {promised['kept']}, "
          f"broken {promised['broken']}; longest {slowest.seconds:.1f} s: {slowest.case}")


if __name__ == "__main__":
    sys.exit(main())
