"""Which small changes of a suspected statement could make every gradient right, the cheapest
first: each function makes those of one kind, for a Trial (npdl_study.blame.trial), and gives the
Proof by the first that does, or None.
"""

import ast
import itertools

import numpy as np

from npdl_study.blame.edits import Edit, edits
from npdl_study.blame.joint_edits import carry_to_next_turn, edit_twice, move_return
from npdl_study.blame.numeric_edits import numeric_edits
from npdl_study.blame.operands import operands
from npdl_study.blame.scope import Scope, names_in_scope
from npdl_study.blame.suspects import frame_near
from npdl_study.blame.trial import first_right, is_derivative, value_test
from npdl_study.blame.weights import FORMULA, SLIP, STAGES
from npdl_study.trace.runs import quiet
from npdl_study.trace.syntax import bound_by, names_of, parsed, parts_of

TOKENS = ("sign", "factor", "axis", "transposed", "number", "name", "order")


def by_edit(trial, line, suspect=None, most=STAGES[-1], least=0.0):
    """By the cheapest edit of a Line, cheaper than `most`, of those that cost `least`."""
    own = 1 + (isinstance(line.node, ast.AugAssign) and not isinstance(line.node.op, ast.Add))
    values = suspect is None or suspect.could is not False or len(line.places) > own
    found = edits(line.node, trial.scope(line), values, most, least)
    return first_right(trial, line, suspect, ((edit, "") for edit in found),
                       value_test(trial, line, suspect))


def by_numeric_edit(trial, suspect):
    """By what is missing in the numbers of a Suspect."""
    key, line = suspect.first_wrong_key(), suspect.line
    text = trial.runs.watch.places[key[0]].text
    node, around = next((found for found in parts_of(line.node) if found[0] is not None
                         and ast.unparse(found[0]) == text), (None, None))
    if suspect.argument_name:
        node = parsed(suspect.argument_name)
    if node is None or key not in suspect.wanted:
        return None
    names = names_in_scope(line, trial.frames.get(key, {}))
    wanted = suspect.wanted[key]
    found = numeric_edits(suspect.values[key], wanted, ast.unparse(node), operands(names, wanted),
                 trial.derived())
    changes = ((Edit(cost, kind, node, new, line.node, line.node, around=around), note)
               for cost, kind, new, note in found)
    if suspect.argument_name:
        changes = ((Edit(cost, "missing line", None, [ast.Assign([ast.Name(
            suspect.argument_name, ast.Store())], parsed(new)), line.node], line.node),
            "a line is missing before it") for cost, kind, new, note in found)
    return first_right(trial, line, suspect, changes)


def by_slip_of_forward(trial, line, least, most=SLIP, names=None):
    """By a slip of one token in a Line of forward, or of what costs no more than `most`, after
    which the backward is right as it is, or the gradients `names`."""
    given = [a for a in line.function.arguments if a != "self"] if most > SLIP else []
    scope = Scope(given, _numbers(trial))
    slips = ((edit, "") for edit in edits(line.node, scope, True, most)
             if (edit.kind in TOKENS or edit.kind == "missing factor" and "/" not in str(edit.new))
             and trial.runs.budget.left > least)
    return first_right(trial, line, None, slips, right=lambda trial: is_derivative(trial, names))


def by_name_in_forward(trial, line, name, others):
    """By a gradient's own array in the place of another that a Line of forward reads, after which
    it is right, and so are `others`."""
    short = name.removeprefix("input ")
    scope = Scope(arrays=[short, f"self.{short}", f"self.{short}.data"])
    slips = ((edit, f"forward never reads {short}") for edit in edits(line.node, scope, True, SLIP)
             if edit.kind == "name")
    return first_right(trial, line, None, slips, right=lambda trial: is_derivative(
        trial, [name, *others]))


def by_loop_carry(trial):
    """All the Proofs by a line at the end of a loop, that gives a name which the loop reads first
    what the next turn is to have."""
    proofs = []
    for line in (line for f in _ran(trial) for line in f.lines):
        if not line.loops or line.loops[-1].body[-1] is not line.node:
            continue
        frame = frame_near(trial.frames, trial.runs.watch.places, line)
        space, arrays = {**line.function.space, **frame}, trial.scope(line).arrays
        for name in _carried_names(line, frame):
            changes = ((Edit(FORMULA, "missing line", None, [line.node, new], line.node), "")
                       for new in assignments(name, arrays, space))
            proofs += filter(None, [first_right(trial, line, None, changes)])
    return proofs


def by_joint_edits(trial, kinds=None):
    """All the Proofs by an Edit of several statements at once."""
    own, proofs = {trial.runs.watch.places[key[0]].line for key in trial.frames}, []
    for line in (line for f in _ran(trial) for line in f.lines):
        for edit, named, note in kinds(line) if kinds else itertools.chain(
                move_return(line), carry_to_next_turn(line), (
                () if line in own else edit_twice(line, trial.scope(line)))):
            proof = first_right(trial, line, None, [(edit, note)])
            if proof is not None:
                if named is not line.node:
                    proof.line = next(one for one in line.function.lines if one.node is named)
                    proof.old, proof.new = proof.line.text, ""
                proofs.append(proof)
                break
    return proofs


def _ran(trial):
    return {trial.runs.watch.places[key[0]].function for key in trial.frames}


def _numbers(trial):
    """The numbers that a backward writes."""
    nodes = [n for f in _ran(trial) for n in ast.walk(f.node) if isinstance(n, ast.Constant)]
    return sorted({repr(n.value) for n in nodes if type(n.value) is float})


def _carried_names(line, frame):
    """The arrays that a loop reads and its function sets, but the loop does not, or only from
    themselves: dh = dh + .."""
    loop = line.loops[-1]
    inside = {name for node in ast.walk(loop) for name in bound_by(node)} - {
        name for node in loop.body if isinstance(node, ast.Assign)
        for name in bound_by(node) & names_of(node.value)}
    targets = names_of(*(t for node in ast.walk(line.function.node)
                         for t in getattr(node, "targets", ())))
    return sorted(n for n in (names_of(loop) - inside) & targets
                  if isinstance(frame.get(n), np.ndarray))


def assignments(name, arrays, space):
    """Statements name = a, a * b, a @ b .. of arrays, that keep its shape."""
    shape = space[name].shape
    pairs = (form.format(a=a, b=b) for form in ("{a} @ {b}.T", "{a} @ {b}", "{a} * {b}",
                                                "{a}.T @ {b}") for a in arrays for b in arrays)
    for text in itertools.chain(arrays, pairs):
        try:
            with quiet():
                found = eval(text, dict(space))
        except Exception:
            continue
        if np.shape(found) == shape and text != name:
            yield ast.Assign([ast.Name(name, ast.Store())], parsed(text))
