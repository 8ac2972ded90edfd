"""Whether a change of a statement makes every gradient right: it is written, run, and run again on
inputs and upstream gradients that it was not found on.

A Trial is all that is asked of a change; `first_right` is the whole way of a statement's changes.
"""

import ast
import contextlib
import functools
import sys
from collections import Counter
from dataclasses import dataclass

import numpy as np

from npdl_study.blame.derivatives import derivatives
from npdl_study.blame.edits import nests_itself
from npdl_study.blame.scope import is_pure, scope_of
from npdl_study.blame.suspects import frame_near
from npdl_study.trace.runs import quiet, unwritten
from npdl_study.trace.source import patched, recompiled
from npdl_study.trace.syntax import cloned, parsed

PART = "__npdl_part__"
MOST_RUN = 1500                 # changes of one statement that are run
LOOPED = 20_000                 # lines of one call of a function: then its `while` has no end
TO_RUN, TO_COMPILE, TO_TRY = 900, 3, 80     # of a Budget: for a change that is run, for a node of
                                # its function, for an expression: what they take in values of runs


@dataclass
class Proof:
    """A change of a Line after which every gradient is right."""

    cost: float
    kind: str
    line: object
    old: str
    new: str
    suspect: object = None
    note: str = ""
    inlines: str = ""           # the name in whose place it puts more than a name
    edit: object = None

    @property
    def rank(self):
        return self.cost, *(self.suspect.rank if self.suspect else (2, 0, 0))


@dataclass(frozen=True, eq=False)
class Trial:
    """What is wrong, `runs`, with locals at each key; `others()` gives more Runs that have to be
    right, but for the gradients `spared`; `scope(line)` what changes of a Line are made of;
    `derived()` the Derivatives of forward."""

    runs: object
    frames: dict
    others: object
    spared: frozenset
    scope: object
    derived: object = tuple


def trial(found, others, spared=()):
    """The Trial of a Located."""
    runs, frames = found.runs, found.frames
    forwards = found.oracle.values if found.solver is not None else ()
    return Trial(runs, frames, others, frozenset(spared), functools.cache(lambda line: scope_of(
        line, frame_near(frames, runs.watch.places, line), runs.watch, forwards)),
        functools.cache(lambda: derivatives(found.oracle) if forwards else []))


def first_right(trial, line, suspect, changes, gives=None, right=None):
    """The Proof by the first of the changes, (Edit, note) of a Line, after which `right(trial)`;
    of those that replace the value, for which `gives(edit)`. None where there is none."""
    function, budget = line.function, trial.runs.budget
    place = find_block(function.node, line.node)
    if place is None:
        return None
    ran, size = 0, TO_RUN + TO_COMPILE * sum(1 for _ in ast.walk(function.node))
    for edit, note in changes:
        if budget.over or ran > MOST_RUN:
            return None
        whole = edit.value or suspect is not None and suspect.argument
        if whole and gives and not gives(edit):
            continue
        try:
            with edit.made() as body:
                if mutates_argument(line, body) or hasattr(line.node, "written") and not (
                        len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value):
                    continue
                with spliced(edit, body, line, place) as code:
                    pass
        except (SyntaxError, ValueError, TypeError):
            continue
        ran += 1
        budget.spend(size)
        if code is not None and is_right_with(trial, function, code, right or all_right):
            with edit.made() as body:
                new = "; ".join(ast.unparse(n).split("\n")[0] for n in body)
            return Proof(edit.cost, edit.kind, line, *as_written(line, edit, new), suspect,
                         note, replaced_name(edit, line.node), edit)
    return None


def mutates_argument(line, body):
    """Whether statements in a Line's place fill a list with itself, or write, as dy += does, into
    what the function was handed."""
    return nests_itself(body) or isinstance(body[0], ast.AugAssign) and not isinstance(
        line.node, ast.AugAssign) and ast.unparse(body[0].target) in {
            a.arg for a in line.function.node.args.args}


def value_test(trial, line, suspect, given=None):
    """A function that tells of an Edit whether its expression gives what a Suspect has to be, or
    what `given(value)` takes; None where that can't be told."""
    if suspect is None or given is None and not (suspect.could and suspect.solved) or \
            len(line.places) != 1 and not suspect.argument:
        return None
    key = suspect.keys[0]
    value = line.node.value if not suspect.argument else next((
        n for n in ast.walk(line.node) if isinstance(n, ast.expr)
        and ast.unparse(n) == trial.runs.watch.places[key[0]].text), None)
    if value is None or not is_pure(value):
        return None
    inside, shape = set(ast.walk(value)), suspect.values[key].shape
    space = {**line.function.space, **trial.frames.get(key, {})}
    around = functools.cache(lambda part: compiled(cloned(value, part, ast.Name(PART, ast.Load()))))

    @functools.cache
    def evaluated(text):
        with contextlib.suppress(Exception):
            return eval(compile(text, "edit", "eval"), space)

    def evaluate(edit):
        if isinstance(edit.part, (ast.Slice, ast.keyword, ast.Starred, ast.Constant)):
            new = parsed(edit.new) if isinstance(edit.new, str) else edit.new
            return eval(compiled(cloned(value, edit.part, new)), space)
        whole = around(edit.part)
        part = evaluated(edit.new if isinstance(edit.new, str) else ast.unparse(edit.new))
        return part is not None and eval(whole, space | {PART: part})

    def gives(edit):
        if edit.part not in inside:
            return not suspect.argument
        trial.runs.budget.spend(TO_TRY)
        try:
            with quiet():
                found = np.asarray(evaluate(edit), dtype=float)
            if found.shape != shape:
                found = found.reshape(shape) if found.size == np.prod(shape) else \
                    np.broadcast_to(found, shape)
            return (given or suspect.gives)(found)
        except Exception:
            return False
    return gives


def compiled(node):
    return compile(ast.fix_missing_locations(ast.Expression(node)), "edit", "eval")


def is_right_with(trial, function, code, right):
    """Whether `right(trial)` with other code of a function."""
    with trial.runs.watch.edited(function, code), ending(function):
        try:
            return right(trial)
        except Exception:                               # it can't be run so
            return False


@contextlib.contextmanager
def ending(function):
    """Raise in a Watched function with a loop `while` that does not end."""
    turns = Counter()

    def ran(frame, *_):
        turns[frame] += 1
        if turns[frame] > LOOPED:
            raise RuntimeError("a loop without an end")
        return ran if frame.f_code.co_filename == function.code.co_filename else None

    before = sys.gettrace()
    if function.has_while:
        sys.settrace(ran)
    try:
        yield
    finally:
        sys.settrace(before)


def all_right(trial):
    """Whether every gradient is right now, here and in the others, but for those spared."""
    return trial.runs.works(trial.spared) and all(
        other.works(trial.spared) for other in trial.others())


def is_derivative(trial, names=None):
    """Whether the backward is the derivative of the forward that runs now; or the gradients that
    are named."""
    runs = trial.runs
    with unwritten(runs.subject.layer):
        found = runs.gradients()
    if names is not None:
        return all(found[name].any() and runs.is_slope(name, found[name]) for name in names)
    wrong = runs.wrong(found)
    return all(found[name].any() for name in wrong) and all(
        runs.is_slope(name, found[name]) for name in sorted(
            found, key=lambda name: name not in wrong))


@contextlib.contextmanager
def spliced(edit, body, line, place):
    """The code of a Line's function with an Edit's statements in its place, (block, index), which
    stay while the block runs."""
    function, (block, at) = line.function, place
    for node in body if edit.part is None else body[:1]:
        if edit.whole is not None or not hasattr(node, "lineno"):
            ast.copy_location(node, line.node)
        if edit.part is None:
            ast.fix_missing_locations(node)
    held = block[at : at + edit.span]
    block[at : at + edit.span] = body
    try:
        yield recompiled(function.code, function.node, function.owner)
    finally:
        block[at : at + len(body)] = held


@contextlib.contextmanager
def applied(proof):
    """Run the student's code, and let it be read, with the change of a Proof."""
    function = proof.line.function
    place = find_block(function.node, proof.edit.statement)
    with proof.edit.made() as body, spliced(proof.edit, body, proof.line, place) as code, \
            contextlib.ExitStack() as stack:
        for f in function.functions:
            stack.enter_context(patched(f, code))
        yield


def find_block(tree, statement):
    """(the list of statements that holds a statement, its index in it)."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            for i, child in enumerate(block if isinstance(block, list) else ()):
                if child is statement:
                    return block, i
    return None


def as_written(line, edit, new):
    """(a statement, what it is changed to), as the line itself is written; as Python writes them
    where that is not one line, or not one expression in it."""
    old, node, part = line.source.encode(), line.node, edit.part
    text = "" if part is None else ast.unparse(
        parsed(edit.new) if isinstance(edit.new, str) else edit.new)
    if hasattr(node, "written"):                        # it stands in a lambda
        text, (node, whole) = new.removeprefix("return "), node.written
        part, node = whole.body, node if node.lineno == node.end_lineno else whole
        new = ast.unparse(ast.fix_missing_locations(cloned(node, part, parsed(text))))
    at = [getattr(part, name, None) for name in ("lineno", "end_lineno")]
    if isinstance(node, ast.Lambda) or at != [node.lineno] * 2 or node.end_lineno != node.lineno:
        return ast.unparse(node).split("\n")[0], new
    first = node.col_offset
    old = old[: node.end_col_offset - first]
    for changed in (text, f"({text})"):
        found = (old[: part.col_offset - first] + changed.encode()
                 + old[part.end_col_offset - first :]).decode()
        with contextlib.suppress(SyntaxError):
            if ast.dump(ast.parse(found)) == ast.dump(ast.parse(new)):
                return old.decode(), found
    return ast.unparse(node).split("\n")[0], new


def replaced_name(edit, node):
    """The name that an Edit puts more than a name in the place of; not of a whole value, nor of
    another array."""
    if not isinstance(edit.part, ast.Name) or edit.part is getattr(node, "value", None):
        return ""
    text = edit.new if isinstance(edit.new, str) else ast.unparse(edit.new)
    return "" if text.isidentifier() else edit.part.id
