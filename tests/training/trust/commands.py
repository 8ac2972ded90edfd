"""Bad command lines: one line on standard error that says what, and what to do; exit status 2.

These cases call the scripts' own main functions, which is quick; closed pipes, full devices and
Ctrl-C need processes (tests.training.trust.outputs).
"""

import contextlib
import importlib.util
import io
import resource
import shutil
import sys

from npdl.training.config import Config
from npdl.training.run import train
from tests.training.trust import Figure
from tests.training.trust.outputs import LONG, PRINTING, closed, interrupted, missing
from tests.training.trust.runs import ROOT, TEXT
from tests.training.trust.wrong_lines import other_cases, training_cases

REMEDY = ("; ", "must", "choose", "needs", "give ", "--help", "allowed", "leave", "name ", "only",
          "goes with", "longer than", "say ")


def main_of(script):
    """The function that a script calls with its arguments, or None where there is no script."""
    if script in ("exercises", "npdl"):
        spec = importlib.util.find_spec(f"{script}.__main__")
    elif (ROOT / "npdl" / "scripts" / f"{script}.py").exists():
        spec = importlib.util.find_spec(f"npdl.scripts.{script}")
    else:
        path = ROOT / "experiments" / f"{script}.py"
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))
        spec = importlib.util.spec_from_file_location(f"trusted_{script}", path)
        spec = spec if path.exists() else None
    if spec is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def prepare(folder):
    """Runs and files that the cases name."""
    small = {"p": 5, "width": 8, "heads": 2, "layers": 1, "steps": 3, "eval_every": 3}
    train(Config(**small), folder / "run", quiet=True)
    (folder / "text.txt").write_text(TEXT)
    train(Config(**small, text=str(folder / "text.txt"), block=8, batch=4, eval_batches=1),
          folder / "text", quiet=True)
    for name in ("broken", "cut"):
        (folder / name).mkdir()
        (folder / name / "config.json").write_bytes((folder / "run/config.json").read_bytes())
    shutil.copytree(folder / "run", folder / "odd")
    (folder / "odd/summary.json").write_text('{"steps": "many"}')
    (folder / "broken/config.json").write_text('{"config": {"p": 0}}')
    (folder / "cut/checkpoint.npz").write_bytes((folder / "run/checkpoint.npz").read_bytes()[:99])
    (folder / "file").write_text("")
    (folder / "empty.txt").write_text("")
    (folder / "binary.bin").write_bytes(b"\xff\xfe\x00")


def problem(case, main, folder):
    """What is wrong with how a script takes a wrong command line, or None."""
    arguments = [argument.replace("{tmp}", str(folder)) for argument in case.arguments]
    output, errors = io.StringIO(), io.StringIO()
    before = sorted(folder.iterdir())
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            status = main(arguments)
        except SystemExit as stop:
            status = stop.code
        except Exception as error:
            return f"raised {type(error).__name__}: {error}"
    text = errors.getvalue().strip().lower()
    if status != 2 or len(text.splitlines()) != 1:
        return f"status {status}, {text!r}"
    words = [word.lower() for word in case.words]
    alike = text.replace("_", "-") + text
    missing = [word for word in words if word.replace("_", "-") not in alike and word not in alike]
    if missing or not any(word in text for word in REMEDY):
        return f"does not say {missing or 'what to do'}: {text!r}"
    if sorted(folder.iterdir()) != before:
        return f"left {set(folder.iterdir()) - set(before)} behind"
    return None


def wrong_lines(folder):
    """Run all cases; return (how many, how many scripts) and raise for those that went wrong."""
    prepare(folder)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cases = [*training_cases("train_gpt"), *training_cases("train_lstm"), *other_cases()]
    scripts = {script: main_of(script) for script in dict.fromkeys(c.script for c in cases)}
    cases = [case for case in cases if scripts[case.script] is not None]
    problems = [(case, problem(case, scripts[case.script], folder)) for case in cases]
    bad = [f"{case.script} {' '.join(case.arguments)}: {what}" for case, what in problems if what]
    assert not bad, f"{len(bad)} of {len(cases)}:\n" + "\n".join(bad)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 300, f"a wrong command line took {grown:.0f} MiB"
    return len(cases), sum(main is not None for main in scripts.values())


def measure(full, folder):
    cases, scripts = wrong_lines(folder)
    pipes = closed(folder, len(PRINTING) if full else 0)
    extras = missing(folder) if full else 0
    moments = interrupted(folder, 60 if full else 4)
    return [Figure(
        "A wrong command line is one line with the option, the value and what to do",
        f"wrong options, values, paths, runs and questions of {scripts} scripts",
        f"{cases} command lines: exit status 2, one line, no traceback, nothing left behind"
        + (f"; {pipes} closed pipes and full devices, {extras} missing extras alike" if full
           else ""),
    ), Figure(
        "Ctrl-C at any moment is quiet",
        f"SIGINT at random moments of {len({script for script, *_ in LONG})} scripts",
        f"{sum(moments.values())} times exit status 130, no traceback "
        f"({moments['early']} before anything was said)",
    )]
