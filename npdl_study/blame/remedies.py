"""Where a proof is looked for, the likeliest statements first."""

import ast
import functools
import itertools
import re

import numpy as np

from npdl_study.blame import prove
from npdl_study.blame.edits import names_read_by
from npdl_study.blame.joint_edits import (
    begin_with_zeros,
    copy_before_write,
    shape_anew,
    store_elsewhere,
)
from npdl_study.blame.locate import argument_suspects
from npdl_study.blame.suspects import (
    NOTHING,
    PASSES_ON,
    PROMISED,
    PROVEN,
    SOMETHING,
    called_names,
    factors,
    only_passes_on,
)
from npdl_study.blame.weights import ALIKE, BENT, FORWARD, LIKELIER, SLIP, STAGES, TAKEN, ZERO
from npdl_study.trace.syntax import bound_by, header, renames

SLIPS = ("axis", "name", "missing factor")
NEUTRAL = re.compile(r" (\*\*?|/|\+|-) (0|1|1\.0|0\.0)\b")      # what nobody means to write


def find_proofs(found, trial, proofs):
    """The Proofs that a Located allows, the best first, with those of its Suspects; of a part of
    what is wrong, one of every line that could mend it: which is meant, the other part tells."""
    could = found.could
    if found.left:
        proofs = _prove_suspects(trial, [
            s for s in could if s.level <= PROVEN or not isinstance(s.line.node, ast.Return)], True)
        return sorted(proofs, key=lambda p: (any(_is_preferred(o, p) for o in proofs), p.rank))
    if not proofs and not any(s.level == PROMISED for s in could):
                                                        # right by its name, and not enough
        proofs = _prove_suspects(trial, [s for s in could if s.name])
    if not proofs:
        proofs = _prove_rest(found, trial, STAGES[:2]) or _prove_suspects(
            trial, argument_suspects(found))
    elif min(p.cost - (p.suspect.odds if p.suspect else 0) for p in proofs) > TAKEN:
        proofs += _prove_rest(found, trial, STAGES[:2])
    proofs = proofs or prove.by_loop_carry(trial) or _prove_rest(found, trial, STAGES[1:])
    if not proofs:
        return []
    proofs.sort(key=lambda p: p.rank)
    best = proofs[0]
    proofs = _prove_definition(found, trial, best) + _prove_callee(found, trial, best) + proofs
    return sorted(proofs, key=lambda p: any(_is_preferred(other, p) for other in proofs))


def prove_likely(found, trial):
    """The Proofs of the Suspects of a Located that could mend all, and are likely; or by several
    statements at once."""
    return [] if found.left else [*_prove_suspects(trial, [
        s for s in found.could if s.level <= SOMETHING]), *prove.by_joint_edits(
            trial, copy_before_write)] or prove.by_joint_edits(trial)


def prove_at_once(found, tried):
    """(Proofs by what can mend all, whatever the values are; the gradients that they mend): zeros
    to begin with; another name to store to, where two are wrong or one has got nothing; axes in
    another order. `tried(spared)` is a Trial."""
    runs = found.runs
    lost = len(found.wrong) == 2 or any(not found.base[name].any() for name in found.wrong)
    whole = tried(())
    for kind in (begin_with_zeros, lambda line: store_elsewhere(line, whole.scope(line)))[
            : 1 + lost]:
        proofs = prove.by_joint_edits(whole, kind)
        if proofs:
            return proofs, found.wrong
    for name in sorted(found.wrong):
        own, true = found.base[name], runs.truth[name]
        ways = [(f".transpose({', '.join(map(str, axes))})", own.transpose(axes))
                for axes in itertools.permutations(range(own.ndim)) if own.ndim > 2]
        if own.size == true.size and found.suspects:
            ways += [(f".reshape({shape})", own.reshape(true.shape)) for shape in sorted(
                whole.scope(found.outermost.lines[-1]).shapes)]
        ends = [end for end, new in ways if runs.is_right(new, true)]
        if ends and own.shape != true.shape:
            proofs = prove.by_joint_edits(tried(found.wrong - {name}), functools.partial(
                shape_anew, ends=ends))
            return sorted(proofs, key=lambda p: (
                isinstance(p.line.node, ast.Return), -p.line.first)), {name}
    return [], set()


def _prove_suspects(trial, suspects, every=False):
    """The Proofs of Suspects: by an edit, or by what is missing in numbers; of those as likely as
    the likeliest, or of `every` one."""
    proofs, tried = [], set()
    for suspect in sorted(suspects, key=lambda s: (s.odds, *s.rank)):
        most = np.inf if every else min((p.cost for p in proofs if not (
            suspect.nonlinear and p.kind == "expression")), default=np.inf) - suspect.odds
        own = suspect.keys[0][0] if suspect.argument else suspect.line
        if own not in tried:
            tried.add(own)
            found = None if suspect.argument_name else prove.by_edit(
                trial, suspect.line, suspect, most + ALIKE)
            if found is not None:
                most = found.cost
            if found is None or most > TAKEN:
                fit = prove.by_numeric_edit(trial, suspect)
                found = fit if fit is not None and fit.cost < most else found
            if found is not None:
                found.cost = round(found.cost + suspect.odds, 9)    # alike is alike
                proofs.append(found)
    return proofs


def _prove_rest(found, trial, stages=STAGES):
    """The Proofs of statements without values: loops, choices, indices, what hands on."""
    ran, could = {s.line.function for s in found.suspects}, found.could
    called = {name for f in ran for line in f.lines for name in called_names(line.node)}
    shared = {line.function for line in found.forwards if line is not None}
    ran |= {f for f in found.runs.watch.functions if f.code.co_name in called and f not in shared}
    known = [s.line for s in could[:1] if s.level <= NOTHING]     # what it reads comes first
    own = {s.line for s in could if s.level <= SOMETHING and not (
        s.argument and any(_before(s.line, one) < 2 for one in known))}
    by = {s.line: s for s in found.suspects if not s.argument}
    handing = {s.line for s in could if s.level == PASSES_ON and not isinstance(
        s.line.node, ast.Return)}
    rest = [line for f in found.runs.watch.functions if f in ran or "backward" in f.qualname
            for line in f.lines if line not in own and (
                "forward" not in f.qualname or line.inside)]
    rest.sort(key=lambda line: (line not in handing, min(
        (_before(line, one) for one in known), default=2), line in by, only_passes_on(line.node)))
    for least, most in zip(stages, stages[1:], strict=False):   # what is small in any comes first
        proofs = []
        for line in rest:
            suspect = by.get(line)
            if suspect is not None and suspect.level == PASSES_ON and not suspect.could and \
                    not isinstance(line.node, ast.Return):
                suspect = None
            unpacks = only_passes_on(line.node) and isinstance(getattr(
                line.node, "targets", [None])[0], ast.Tuple)
            limit = SLIP if unpacks or "zeros" in line.text else most
            proof = prove.by_edit(trial, line, suspect,
                                  min([limit, *(p.cost for p in proofs)]), least)
            if proof is not None:
                proof.suspect = suspect if suspect is not None and suspect.could else None
                proofs.append(proof)
        if proofs:
            return proofs
    return []


def _prove_definition(found, trial, best):
    """[the Proof of the line that binds the name in whose place a Proof puts an expression: as
    simple]; [] where what it binds is a gradient, or would have to have more axes."""
    own = best.cost - (best.suspect.odds if best.suspect else 0)
    names = {best.inlines} - {""} if best.kind != "function" else set()
    for line in reversed(best.line.function.lines if names else ()):
        if line.first >= best.line.first or line in found.forwards or not isinstance(
                line.node, ast.Assign) or not names & bound_by(line.node) or renames(line.node):
            continue
        suspect = next((s for s in found.suspects if s.line is line and not s.argument), None)
        fixed = suspect is None or set(suspect.values) <= found.fixed and not \
            found.solver.promised_name(suspect, suspect.keys[0])
        could = suspect is not None and suspect.could and not suspect.widened and (
            suspect.level <= NOTHING or best.kind == "missing term")
        proof = prove.by_edit(trial, line, suspect if could else None, own + ALIKE) if (
            could or fixed) else None
        if proof is not None:
            proof.cost = best.cost - ALIKE / 2
            return [proof]
        names -= bound_by(line.node)
    return []


def _prove_callee(found, trial, best):
    """[the Proof of a function's return by the same factor that a Proof gives what calls it]: the
    slope of an activation is wrong, rather than what takes it."""
    node, own = best.line.node, best.cost - (best.suspect.odds if best.suspect else 0)
    called = called_names(node) if best.kind in ("missing factor", "sign") else ()
    for suspect in (s for s in found.suspects if s.could and isinstance(s.line.node, ast.Return)):
        if suspect.line.function.code.co_name in called and not suspect.argument:
            proof = prove.by_edit(trial, suspect.line, suspect, own + ALIKE)
            if proof is not None and proof.kind == best.kind and not added_names(proof) & set(
                    suspect.line.function.arguments) - {"self"}:
                proof.cost = best.cost - ALIKE / 2
                return [proof]
    return []


def added_names(proof):
    """The names that the change of a Proof puts beside what it changes."""
    new, part = proof.edit.new, proof.edit.part
    text = new if isinstance(new, str) else ast.unparse(new)
    return names_read_by(text.removeprefix(f"({ast.unparse(part)})"))


def _is_preferred(proof, other):
    """Whether a Proof is meant rather than one that costs as much: of the line that binds the name
    which the other turns; of the line that adds the term which the other adds a second time; of
    the line that divides by what the other multiplies by."""
    more = ALIKE + BENT * (proof.suspect is not None and proof.suspect.nonlinear)
    if proof.cost > other.cost + more or proof.line is other.line:
        return False
    term = other.new.removeprefix(other.old).lstrip(" +-") if other.kind == "missing term" else ""
    bound = bound_by(proof.line.node)
    turned = other.kind == "transposed" and other.inlines in bound
    factor = other.kind == proof.kind == "missing factor" and isinstance(
        other.edit.part, ast.Name) and other.edit.part.id in bound
    undone = other.kind == "missing factor" and proof.kind == "extra part" and (
        other.new.rpartition(" * ")[2] == proof.old.rpartition(" / ")[2])
    whole = other.kind == "expression" and proof.suspect is not None and proof.suspect.nonlinear \
        and bound & factors(other.edit.part)            # of a product no small change is one
    return turned or factor or undone or whole or term and term in proof.line.text


def prove_forward(found, trial, proofs):
    """The Proof of a line of forward, of which a slip makes the backward right as it is; or what
    is forgotten, where what mends a backward of one line, `proofs`, is far less likely."""
    least = found.runs.budget.left - FORWARD
    own = {s.line for s in found.suspects if not isinstance(s.line.node, ast.Assign)
           or not renames(s.line.node)}
    dear = len(own) == 1 and all(p.cost > SLIP + TAKEN for p in proofs[:1])
    return next(filter(None, (prove.by_slip_of_forward(trial, line, least, most) for most in (
        SLIP, STAGES[1])[: 1 + dear] for line in _forward_lines(found))), None)


def prove_unread_input(found, trial):
    """(the Proof of a line of forward of which the output does not change with an input, that
    reads another array in the place of it, or lacks it as a factor; the name of that), or None."""
    others = [n for n in found.runs.truth if n not in found.wrong and found.base[n].any()]
    dead = not any((np.abs(true) > ZERO).any() for true in found.runs.truth.values())
    for name in sorted(found.wrong):
        if found.base[name].any() and (dead or not found.runs.truth[name].any()):
            for line in _forward_lines(found):
                proof = prove.by_name_in_forward(trial, line, name, others) or dead and \
                    prove.by_slip_of_forward(trial, line, 0, STAGES[1], [name, *others])
                if proof:
                    return proof, name
    return None


def _forward_lines(found):
    """The Lines of forward that backward does not run."""
    ran = {s.line.function for s in found.suspects if s.line not in found.made}
    seen = {found.runs.watch.places[key[0]].function for key in found.oracle.values}
    return [line for f in found.runs.watch.functions if f in seen - ran for line in f.lines
            if line not in found.made and ".shape" not in line.text     # as long by chance
            and isinstance(line.node, (ast.Assign, ast.AugAssign, ast.Return))]


def likelier(forward, backward):
    """Whether a slip of forward's is likelier than the change of a backward, both Proofs."""
    return forward.kind in SLIPS and not NEUTRAL.search(
        forward.new) and backward.cost > forward.cost + LIKELIER


def _before(line, other):
    """0 where a Line stands before another in its function, 1 where it calls that, 2 elsewhere."""
    if line.function is other.function:
        return 0 if line.first < other.first else 2
    return 1 if other.function.code.co_name in called_names(header(line.node)) else 2
