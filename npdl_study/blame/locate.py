"""Which statements of a backward could be the mistake.

A backward is linear in what it computes. So a statement can be the mistake only if there are values
for it, in all its turns, that make every gradient right: move each of its entries by 1, see what
the gradients do, solve. Never accused is what is proven: what forward computes too, what does not
depend on the upstream gradient, the gradient of what the name says, and what only hands on.
"""

import ast
import contextlib
import functools
from dataclasses import dataclass, field, replace

import numpy as np

from npdl_study.blame.solve import Solve
from npdl_study.blame.suspects import (
    NOTHING,
    PASSES_ON,
    PROMISED,
    PROVEN,
    SOMETHING,
    Suspect,
    called_names,
    factors,
    frame_near,
    only_passes_on,
)
from npdl_study.blame.weights import CLOSE, PENALTY, SCALED, SHIFT, ZERO
from npdl_study.trace.syntax import bound_by, header, names_of
from npdl_study.trees import leaves

same = functools.partial(np.allclose, rtol=CLOSE, atol=ZERO)


@dataclass
class Located:
    """The Suspects of Runs whose `base` gradients are `wrong`, with the locals at each key.

    goal    those that are to be mended; could: the Suspects that can, the likeliest first
    fixed   the keys of what does not depend on the upstream gradient: no gradients; moved: of
            what does, and is forward's by chance where that is 1
    """

    runs: object
    base: dict
    suspects: list
    frames: dict
    wrong: set = field(default_factory=set)
    fixed: set = field(default_factory=set)
    moved: set = field(default_factory=set)
    solver: object = None
    goal: set = field(default_factory=set)
    could: list = field(default_factory=list)
    forwards: set = field(default_factory=set)      # the Lines that forward runs too
    made: set = field(default_factory=set)          # forward's that make gradients

    @property
    def oracle(self):
        return self.solver.oracle

    def is_forwards(self, key, value):
        """Whether forward computes a value too; but of y - t, a loss's gradient."""
        node = self.runs.watch.places[key[0]].node
        loss = not self.runs.uses_dout and isinstance(getattr(node, "op", None), ast.Sub)
        return not loss and key not in self.moved and self.oracle.is_forwards(value)

    def is_in_goal(self, gradient):
        """Whether a gradient is one of those that are to be mended: that it is wrong tells no more
        of the statement that computes it last."""
        return any(true.shape == gradient.shape and same(true, gradient)
                   for true in (self.runs.truth[name] for name in self.goal))

    @property
    def outermost(self):
        """The function that the backward begins with."""
        return next(s.line.function for s in self.suspects if s.line not in self.made)

    def is_shared(self, line):
        """Whether a Line stands in a function that forward runs too."""
        return not line.inside and any(self.runs.watch.places[key[0]].function is line.function
                                       for key in self.oracle.values)

    @property
    def left(self):
        """The names of the wrong gradients that are not to be mended."""
        return self.wrong - self.goal


def locate(runs, base):
    """The Located of Runs with gradients `base`: {} where the backward raises."""
    made, ahead = gradient_lines(runs) if base else (set(), set())
    runs.whole = bool(made)
    suspects, frames = _suspects(runs, ahead)
    known = Located(runs, base, suspects, frames, made=made)
    if base:
        known.wrong, known.solver = runs.wrong(base), Solve(runs, base, frames, made)
        known.fixed = known.solver.fixed = _constant_keys(known)
        _see_enclosing(known)
        known.forwards = {runs.watch.places[key[0]].line for key in known.oracle.values}
    return known


def _see_enclosing(known):
    """Let what a forward computes be seen in the functions that it makes, read there or not."""
    places, around = known.runs.watch.places, {}
    for key, value in known.oracle.values.items():
        around.setdefault(places[key[0]].function, {})[known.oracle.given_to(key)] = value
    for key, frame in known.frames.items():
        line = places[key[0]].line
        if line is not None and line.inside:
            known.frames[key] = {n: v for n, v in around.get(line.function, {}).items()
                                 if n.isidentifier()} | frame


def gradient_lines(runs):
    """(the Lines of forward that make a gradient there, which backward is only handed: what they
    compute moves a gradient, and not the output, one number; the keys of forward's others)."""
    places, found, by = runs.watch.places, set(), {}
    roots = {i for i, place in enumerate(places) if place.root}
    out = runs.outputs(only=roots, record=True)
    if sum(map(np.size, out)) != 1:
        return set(), set()
    for key, value in runs.watch.seen.items():
        by.setdefault(places[key[0]].line, {})[key] = value
    base, runs.whole = runs.gradients(), True
    for line, values in by.items():
        if isinstance(line.node, ast.Assign) and (only_passes_on(line.node) or isinstance(
                line.node.value, ast.Name)):
            continue
        with contextlib.suppress(Exception):            # it does not stand being moved
            moved = runs.gradients(only=roots, add={key: SHIFT * (1 + np.abs(value))
                                                    for key, value in values.items()})
            if all(map(np.array_equal, out, runs.out)) and any(
                    not np.array_equal(moved[name], base[name]) for name in base):
                found.add(line)
    runs.whole = False
    return found, {key for line, own in by.items() if line not in found for key in own
                   } if found else set()


def possible_goals(known):
    """What may be mended at once: all that is wrong; all but one, or one alone, of several."""
    names, seen = sorted(known.wrong), []
    parts = [known.wrong - {n} for n in names] + [{n} for n in names] if len(names) > 1 else []
    for goal in [known.wrong, *parts]:
        if goal not in seen:
            seen.append(goal)
            yield goal


def aim(known, goal):
    """The Located with the Suspects that could mend a goal."""
    runs, solver, suspects = known.runs, known.solver, [s.again() for s in known.suspects]
    solver.goal = goal
    for passing in (False, True) if goal == known.wrong else ():
        for suspect in sorted(suspects, key=lambda s: sum(map(np.size, s.values.values()))):
            if not runs.budget.over and only_passes_on(suspect.line.node) == passing:
                solver.solve(suspect)
        if any(s.could for s in suspects):
            break
    for suspect in suspects if goal != known.wrong else ():
        if suspect.J is not None:
            solver.fit(suspect)
        else:
            suspect.could = bool(suspect.collects) and suspect.collects >= goal
    found = replace(known, goal=goal, suspects=suspects)
    for suspect in suspects:
        _set_level(found, suspect)
    _mark_wrong_returns(found)
    _doubt_sole_additions(suspects)
    _mark_followers(suspects)
    runs.gradients()                                    # self holds again what it does in a run
    found.could = sorted((s for s in suspects if s.could), key=lambda s: s.rank)
    return found


def argument_suspects(found):
    """The arguments of the backward of which others could mend all, as Suspects: a line before
    the first that reads one is missing."""
    first, suspects, watch = found.outermost, [], found.runs.watch
    found.solver.goal = found.goal
    places = {i: place for i, place in enumerate(watch.places)
              if place.function is first and place.line is None}
    found.runs.gradients(only=set(places), record=True, frames=True)
    for key, value in list(watch.seen.items()):
        name = places[key[0]].text
        lines = [line for line in first.lines if name in names_of(header(line.node))]
        if lines and key[1] == 0:
            suspect = Suspect(lines[0], True, {key: value}, {key: 0}, argument_name=name)
            found.frames[key] = frame_near(found.frames, watch.places, lines[0])
            found.solver.solve(suspect)
            suspects += [suspect] * bool(suspect.could and not suspect.widened)
    found.runs.gradients()
    return suspects


def make_wrong_alone(found):
    """The Suspects of which wrong gradients alone are made: first what computes the gradient of
    nothing, then of something, then the rest."""
    alone = []
    with found.runs.watch:
        for suspect in found.suspects:
            unpacks = suspect.level == PASSES_ON and isinstance(getattr(
                suspect.line.node, "targets", [None])[0], ast.Tuple)
            if "zeros" not in suspect.line.text and not unpacks:
                with contextlib.suppress(Exception):    # it does not stand being moved
                    moved = found.solver.gradients_reached(suspect, suspect.keys)
                    alone += [suspect] * (bool(moved) and found.wrong.issuperset(moved))
        found.runs.gradients()                          # self holds again what it does in a run
    return sorted(alone, key=lambda s: (min(s.level, PROVEN), s.order))


def _suspects(runs, ahead):
    places = runs.watch.places
    roots = {i for i, place in enumerate(places) if place.root or place.line is None}
    with contextlib.suppress(Exception):                # backward may raise: of what ran before
        runs.gradients(only=roots, record=True, frames=True)
    found = {}
    for moment, (key, value) in enumerate((runs.watch.seen or {}).items()):
        line = places[key[0]].line
        if key in ahead or line is None:
            continue
        argument = key[0] in line.places[:-1] and not isinstance(
            getattr(line.node, "value", None), (ast.Tuple, ast.Dict))
        own = found.setdefault((id(line), key[0] if argument else -1), Suspect(line, argument))
        own.values[key], own.at[key] = value, moment
    return list(found.values()), runs.watch.locals or {}


def _constant_keys(known):
    """The keys of what does not depend on the upstream gradient: no gradients. Where a loss's
    backward has none, what forward computes too."""
    runs, values = known.runs, {k: v for s in known.suspects for k, v in s.values.items()
                                if s.line not in known.made}
    try:
        runs.gradients(2.0, only={key[0] for key in values}, record=True)
    except Exception:
        return set()
    twice = runs.watch.seen
    fixed = {key for key, value in values.items() if key in twice and np.array_equal(
        twice[key], value) and value.any()}
    known.moved = {key for key, value in values.items()
                   if key in twice and value.any() and key not in fixed}
    runs.uses_dout = bool(known.moved)
    return {key for key in fixed if runs.uses_dout or known.is_forwards(key, values[key])}


def _set_level(found, suspect):
    """Set the level of a Suspect."""
    oracle, node = found.oracle, suspect.line.node
    suspect.order, suspect.level = min(suspect.at.values()), SOMETHING
    zeros = "zeros" in suspect.line.text
    for key, value in suspect.values.items():
        name = found.solver.promised_name(suspect, key)
        level = _level(found, suspect, key, value, name, zeros)
        if level in (PROMISED, NOTHING):
            suspect.order, suspect.level = suspect.at[key], level
            break
        suspect.level = max(level, suspect.level)
        if level == PROVEN and suspect.could and suspect.sure[key].all() \
                and not same(suspect.wanted[key], value):
            break                                   # it would spoil what is proven right
    if _is_mask(found, suspect):
        suspect.level = PROVEN
    function = suspect.line.function
    suspect.in_library = function.file != found.runs.watch.home or suspect.line in found.forwards
    places = found.runs.watch.places
    parts = [places[key[0]].node for key in suspect.changed] if suspect.could else None
    if only_passes_on(node, parts) and not suspect.nonlinear or _is_returned(found, suspect):
        suspect.level = PASSES_ON
    elif suspect.in_library and suspect.level > PROMISED:
        suspect.level = max(suspect.level, SOMETHING)   # what it was handed is likelier
    elif suspect.level == SOMETHING and not suspect.argument and isinstance(
            node, ast.Assign) and isinstance(node.value, ast.Name):
        suspect.level = NOTHING                     # it only has another name now
    if suspect.could and all(np.all(s) for s in suspect.sure.values()):
        suspect.order = suspect.at[suspect.first_wrong_key()]
    if suspect.could:
        suspect.known = all(not np.all(suspect.sure[k]) or oracle.name(w)
                            for k, w in suspect.wanted.items() if w.any())


def _is_mask(found, suspect):
    """Whether all values are masks, in whose place no mask could mend."""
    solved = suspect.nonlinear or suspect.line in found.made
    return solved and all(np.isin(value, (-1, 0, 1)).all() and not (suspect.could and len(np.unique(
        np.round(suspect.wanted[key], 6))) <= max(len(np.unique(value)), 2))
        for key, value in suspect.values.items())


def _doubt_sole_additions(suspects):
    """Of a gradient that one statement alone adds to, what that adds is not all, whatever it
    is the gradient of."""
    adding = [s for s in suspects if s.collects]
    for suspect in adding:
        if suspect.could and suspect.level == SOMETHING and not any(
                other.collects & suspect.collects for other in adding if other is not suspect):
            suspect.level = NOTHING


def _is_returned(found, suspect):
    """Whether all values are what a function has returned, which is looked at itself; but of
    gradients that the function has right, under another name, the call is wrong."""
    value = getattr(suspect.line.node, "value", None)
    if suspect.argument or not isinstance(value, ast.Call):
        return False
    given = [v for s in found.suspects if s.line.is_return and s.line not in found.forwards
             and s.line.function is not suspect.line.function and min(s.at.values()) < min(
                 suspect.at.values()) for v in s.values.values()]
    return all(any(np.array_equal(v, g) for g in given) and (
        suspect.level > PROMISED or not found.oracle.name(v)) for v in suspect.values.values())


def _level(found, suspect, key, value, name, zeros):
    """The level of one value of a Suspect."""
    oracle = found.oracle
    if suspect.argument and not suspect.argument_name and any(
            np.array_equal(value, given) for _, given in leaves(found.runs.dout)):
        return PROVEN                               # it is what backward was handed
    if key in found.fixed or zeros:                  # no gradient: it may only lack one
        if zeros or oracle.is_forwards(value):
            return PROVEN
        gradient = name in found.solver.names and np.ndim(value)
        return NOTHING if suspect.could and (suspect.mends_many or gradient) else SOMETHING
    if not value.any():
        wanted = suspect.could and suspect.sure[key].all() and (
            np.abs(suspect.wanted[key]) > CLOSE).any()
        return NOTHING if wanted else SOMETHING
    if suspect.could and name:
        if oracle.is_named(name, value):
            suspect.name = name
            return PROVEN
        for other in oracle.called(name, value.shape):
            meant = oracle.gradient(other)
            if not same(meant, value) and (
                    key == suspect.keys[0] and suspect.effect is not None
                    and suspect.gives(meant) or suspect.sure[key].all()
                    and same(meant, suspect.wanted[key])):
                suspect.wanted[key] = meant
                suspect.sure[key] = np.full(meant.shape, True)
                return NOTHING if found.is_in_goal(meant) else PROMISED
    if found.is_forwards(key, value):
        return PROVEN
    if suspect.could and name and suspect.sure[key].all() and not oracle.is_use(
            name, value) and oracle.is_use(name, suspect.wanted[key]):
        return NOTHING
    return SOMETHING if oracle.name(value) else NOTHING


def _mark_followers(suspects):
    """Mark the Suspects whose line reads what an earlier one binds, that is no gradient; the
    more where it is not the gradient that its name promises, or is multiplied by the upstream
    gradient alone."""
    bound = {}
    bent = {(s.line.function, name) for s in suspects if s.nonlinear and s.level <= SOMETHING
            for name in bound_by(s.line.node)}
    for suspect in sorted(suspects, key=lambda s: s.order):
        line, node = suspect.line, suspect.line.node
        read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)
                and isinstance(n.ctx, ast.Load)}
        found = [bound[line.function, name] for name in read if (line.function, name) in bound]
        suspect.follows = max([PENALTY[s.level] for s in found if s.line is not line],
                              default=0) or not suspect.argument and any(
            other.could and other.line.function is not line.function
            and other.order < suspect.order and other.level <= NOTHING
            and other.line.function.code.co_name in called_names(node) for other in suspects)
        value = getattr(node, "value", None)
        if any((line.function, name) in bent for part in getattr(value, "elts", [value])
               for name in factors(part)):
            suspect.follows = SCALED
        if not suspect.argument and suspect.level == NOTHING and any(
                other.could and other.argument and other.level <= NOTHING
                and other.line is line for other in suspects):
            suspect.level, suspect.follows = SOMETHING, True
        if suspect.could and suspect.level <= NOTHING:
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            for name in bound_by(node) | {
                    t.value.id for t in targets if isinstance(t, ast.Subscript)
                    and isinstance(t.value, ast.Name)}:
                bound.setdefault((line.function, name), suspect)


def _mark_wrong_returns(found):
    """To return a dz that is right as dx is a mistake of the return; one that is right for another
    x, which forward made of the input, lacks a line where it is bound last."""
    proven = {ast.unparse(s.line.node.targets[0]): s for s in found.suspects
              if s.name and s.could and isinstance(s.line.node, ast.Assign)}
    for suspect in found.suspects:
        callee = any(suspect.line.function.code.co_name in called_names(s.line.node)
                     for s in found.suspects if s.line.function is not suspect.line.function)
        read = proven.keys() & names_of(suspect.line.node.value) if only_passes_on(
            suspect.line.node) and not callee else ()
        last = [proven[n] for n in read if f"input {proven[n].name}" in found.goal]
        if read and not last:
            found.solver.solve(suspect)
        for one in last or [suspect] * bool(read):
            one.level = NOTHING
