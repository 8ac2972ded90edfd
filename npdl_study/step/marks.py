"""What is known of each value that a backward computed: the marks of a Walk.

The oracle tells (npdl_study.trace.oracle), as it tells blame: a `dz` is right that is the true
gradient of a `z` of forward's, each use and time step apart. Where every gradient is right, a value
without such a namesake is moved a little: when a gradient is then wrong, it had to be what it is.
Where one is wrong, those lines are wrong that blame names, and what depends on them and is not
proven follows from that. So no mark contradicts blame.
"""

import ast
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from npdl.backend import stream
from npdl_study.step.pictures import digest
from npdl_study.step.record import Write
from npdl_study.trace.oracle import CLOSE, Oracle, alike, plain, stems

MOVE = 1e-2                     # how far a value is moved, as a share of its largest entry


@dataclass
class Mark:
    """One value. `right` is True, False, or None where nothing is known; `error` of its product
    with a random direction.

    of, call, line   what in forward it is the gradient of: its source, its Call, its line
    needed    right, because moving it makes a right gradient wrong
    follows   wrong, but it may be because of what it depends on, or another line instead
    kink      forward has a kink there
    """

    right: bool | None = None
    error: float = np.nan
    of: str = ""
    call: object = None
    line: int = 0
    needed: bool = False
    follows: bool = False
    kink: bool = False

    @property
    def says(self):
        """The mark in words; "" where nothing is known."""
        error = f" (error {self.error:.0e})" if np.isfinite(self.error) else ""
        if self.needed:
            return "right (moved a little, a gradient goes wrong)"
        if self.right:
            return "right" + (error or f" (the gradient of {self.of})")
        if self.kink:
            return "at a kink: no numerical value"
        if self.follows:
            return f"wrong, here or in what it reads{error}"
        return f"WRONG{error}" if self.right is False else ""


class Marks:
    """Finds {(a step's index, a name): Mark}, `of`, for a Recording and the Runs of what it is of,
    while these have a budget; `notes` tell of names that promise something else."""

    def __init__(self, recording, runs):
        self.recording, self.runs = recording, runs
        self.of, self.notes = {}, []
        self.steps = recording.phase("backward")
        self.oracle = oracle = Oracle(runs)
        self.keys = defaultdict(list)                   # of forward's values, by their names
        for key in oracle.values:
            place = oracle.places[key[0]]
            if place.names or isinstance(place.node, (ast.Name, ast.Attribute, ast.Subscript)):
                text = oracle.given_to(key) or place.text
                self.keys[plain(text.removesuffix(".data"))].append(key)

    def of_right(self, is_mathematics):
        """Mark a backward whose gradients are right."""
        for step, write in self._unknown():
            self._name(step, write)
        self._misnamed()
        self.runs.learn(set(), self.runs.gradients())
        for step, write in self._unknown():
            keys = self._computed(step, write.name) or step.keys
            if is_mathematics(step) and self._is_needed(keys):
                self.of[step.index, write.name] = Mark(True, needed=True)

    def of_wrong(self, report):
        """Mark one of which blame gives this report."""
        for step, write in self._unknown():
            mark, arrays = self._name(step, write), self._arrays(step, write)
            if mark.right is None and not mark.kink and arrays:
                names = [array.any() and self.oracle.name(array) for array in arrays[-1]]
                if all(names):
                    mark.right, mark.of, mark.error = True, ", ".join(names), np.nan
        guilty = []
        for line in dict.fromkeys((report.line, *report.either)):
            steps = [s for s in self.steps if s.line.function.file == report.file
                     and s.line.first == line]
            self._blame(steps, line != report.line)
            guilty += steps
        for step, write in self._depending(guilty):
            mark = self.of.setdefault((step.index, write.name), Mark())
            mark.right, mark.follows = False, True

    def _unknown(self):
        """The (step, write) of which nothing is known, while there is a budget."""
        for step in self.steps:
            for write in step.writes:
                mark = self.of.get((step.index, write.name), Mark())
                known = mark.right is not None or mark.kink or step.error is not None
                if not known and write.how != "through a view":
                    if self.runs.budget.over:
                        return
                    yield step, write

    # What the oracle tells

    def _name(self, step, write):
        """Set and return the Mark by the name: right where a value is the gradient of what it
        says; else with the least error."""
        mark = Mark()
        for arrays in self._arrays(step, write):
            found = [self._nearest(array, step.call, write.name) for array in arrays]
            known = [(error, key) for error, key in found if key is not None]
            if any(not error <= CLOSE and self.oracle.is_kink(key) for error, key in known):
                mark.kink = True
            elif known and not mark.error <= CLOSE:
                error, key = max(known)
                place = self.oracle.places[key[0]]
                mark = Mark(len(known) == len(found) and error <= CLOSE or None, error,
                            self.oracle.given_to(key) or place.text,
                            self.recording.call_of.get(key),
                            (place.line or place.function).node.lineno)
        if mark.right or mark.kink or np.isfinite(mark.error):
            self.of[step.index, write.name] = mark
        return mark

    def _nearest(self, array, call, name):
        """(error, key) of the value in forward, of those that a name can mean, whose gradient an
        array is, or is nearest to; (inf, None) where there is none."""
        around, pairs = call, []
        while around is not None:
            pairs, around = [*pairs, *around.pairs], around.parent
        made = self.recording.call_of
        if name == "return":
            keys = [k for k in self.oracle.values if made.get(k) in call.pairs
                    and self.oracle.places[k[0]].line is None]
        else:
            keys = [key for stem in stems(name) for key in self.keys.get(stem, ())]
        keys = [k for k in keys if alike(self.oracle.values[k].shape, array.shape)]
        if not array.any():                             # a use that leads nowhere has gradient 0
            keys = [k for k in keys if (place := self.oracle.places[k[0]]).names
                    or isinstance(place.node, ast.Attribute)]
        best = np.inf, None
        for key in sorted(keys, key=lambda k: made.get(k) not in pairs):
            if self.runs.budget.over:
                break
            error = self.oracle.error(key, array)
            if error <= CLOSE:
                return error, key
            if best[1] is None or error < best[0] or np.isnan(error):
                best = error, key
        return best

    def _computed(self, step, name):
        """The keys of what a statement computed for a name."""
        if isinstance(step.line.node, ast.Expr):
            return []
        return [k for k in step.keys if step.line.is_return
                or self.oracle.given_to(k).split("[")[0] == name]

    def _arrays(self, step, write):
        """What a mark is about, each a list of arrays: all that is there now, and what was put
        into a part of it, or added."""
        parts = [self.recording.values[k] for k in self._computed(step, write.name)
                 if k in self.recording.values]
        return [found for found in (write.arrays, parts) if found]

    def _misnamed(self):
        """Note which name, in all its statements of a call, is never the gradient it promises."""
        groups = defaultdict(list)
        if self.runs.budget.over:
            return
        for step in self.steps:
            for write in step.writes:
                mark = self.of.get((step.index, write.name))
                if mark is not None and write.is_one:
                    groups[step.call, write.name].append((step, mark))
        for (call, name), found in groups.items():
            step, mark = found[-1]
            if mark.call in call.pairs and not any(m.right or m.kink for _, m in found):
                self.notes.append(
                    f"line {step.line.first}: {name} is not the gradient of {mark.of}, as its name "
                    "may say; it leads to the right gradients all the same")

    # What runs tell

    def _is_needed(self, keys):
        """Whether a gradient goes wrong when these values are moved."""
        moved = self._moved(keys)
        return bool(moved) and bool(self.runs.wrong(self._gradients(moved)))

    def _moved(self, keys):
        values = {key: self.recording.values[key] for key in keys if key in self.recording.values}
        return {key: MOVE * (np.abs(value).max(initial=0) or 1.0) * stream(
            0, 7, *key).standard_normal(value.shape) for key, value in values.items()}

    def _gradients(self, moved, **watched):
        try:
            return self.runs.gradients(**{"only": {key[0] for key in moved}} | watched, add=moved)
        except Exception:                               # it does not stand being moved
            return self.runs.truth

    def _blame(self, steps, instead):
        """Call wrong what a line of blame's computed: where it is proven right each time, as what
        overwrites, all of it."""
        for step in steps:
            if not step.writes:                         # dxs.append(dx)
                handed = [k for k in step.keys[-1:] if k in self.recording.values]
                step.writes = [Write(self.oracle.places[k[0]].text, [value], "bound", digest(value))
                               for k in handed for value in [self.recording.values[k]]]
        own = [self.of.setdefault((s.index, w.name), Mark()) for s in steps for w in s.writes]
        for mark in [m for m in own if not m.right] or own:
            error = np.nan if mark.error <= CLOSE else mark.error
            mark.right, mark.follows, mark.kink, mark.error = False, instead, False, error

    def _depending(self, guilty):
        """The (step, write) of which nothing is known, and which differ when the values of guilty
        steps are moved."""
        moved = self._moved([key for step in guilty for key in step.keys])
        if not moved:
            return
        self._gradients(moved, only={key[0] for s in self.steps for key in s.keys}, record=True)
        after, before = self.runs.watch.seen, self.recording.values
        for step, write in list(self._unknown()):
            keys = self._computed(step, write.name) or step.keys
            if any(k in after and not np.array_equal(after[k], before.get(k)) for k in keys):
                yield step, write
