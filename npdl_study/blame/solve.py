"""Which values of a statement, in all its turns, make every gradient right.

A backward is linear in what it computes: each entry is moved by 1, and what the gradients do then
is a linear system for what the entries have to be.
"""

import ast

import numpy as np

from npdl_study.blame.weights import CLOSE, HUGE, MOVED, SLIGHT, ZERO
from npdl_study.trace.oracle import Oracle, plain, stems

FEW, TURNS = 40, 8              # of one that is solved for by Newton's method, and its steps


class Solve:
    """Solves for the values of Suspects of Runs with gradients `base`.

    goal    the names of the gradients that are to be mended: all that are wrong, at first
    kept    of those that are right, and have to stay so
    fixed   the keys of what does not depend on the upstream gradient; `frames` {key: locals}
    made    the Lines of forward that make gradients
    """

    def __init__(self, runs, base, frames, made):
        self.runs, self.base, self.frames, self.fixed = runs, base, frames, set()
        self.goal = runs.wrong(base)
        self.kept = set(runs.truth) - self.goal
        self.oracle = Oracle(runs, made)
        self.names = {plain(self.oracle.given_to(key)) for key in self.oracle.values} - {""}

    def solve(self, suspect):
        """Set what a Suspect could be, and has to be, to mend the goal."""
        try:
            if suspect.values.keys() <= self.fixed:
                return self._solve_nonlinear(suspect)
            self._solve_linear(suspect)
        except Exception:                               # it does not stand being moved
            suspect.could = None
        if suspect.could or len(suspect.values) != 1:
            return
        (key, value), = suspect.values.items()          # has it lost an axis that it needs?
        name = self.promised_name(suspect, key)
        if name and self.oracle.is_named(name, value):
            return
        for shape in self._wider_shapes(suspect, key):
            suspect.values[key] = np.broadcast_to(value, shape).copy()
            try:
                self._solve_linear(suspect)
            except Exception:
                suspect.could = None
            if suspect.could:
                suspect.widened = True
                return
            suspect.values[key], suspect.wanted = value, {}
            suspect.could = None if suspect.could is None else False

    def _solve_nonlinear(self, suspect):
        """Solve, by Newton's method, for what a statement computes of forward's values alone: of
        that the gradients are no linear functions."""
        target, runs = getattr(suspect.line.node, "targets", [None])[0], self.runs
        for key, value in suspect.values.items() if isinstance(target, ast.Subscript) else ():
            if not value.shape:                         # of z[i, j] = -1, one for each entry
                part = eval(ast.unparse(target), suspect.line.function.space,
                            dict(self.frames.get(key, {})))
                suspect.values[key] = np.broadcast_to(value, np.shape(part)).copy()
        size = sum(v.size for v in suspect.values.values())
        only, wanted = {key[0] for key in suspect.values}, dict(suspect.values)
        if not 0 < size <= FEW or all(map(self.oracle.is_forwards, wanted.values())):
            return
        J = rank = None
        for _ in range(TURNS):
            found = runs.gradients(only=only, put=wanted)
            if rank and not runs.wrong(found) & (self.goal | self.kept):
                suspect.could, suspect.nonlinear, suspect.wanted = True, True, wanted
                suspect.sure = {k: np.full(v.shape, rank == size) for k, v in wanted.items()}
                suspect.mends_many = (np.abs(J).max(1) > ZERO * np.abs(J).max()).sum() >= 2 * size
                return
            base, columns = runs.short(found), []
            for key, value in wanted.items():
                for at in np.ndindex(value.shape):
                    moved = value.copy()
                    h = CLOSE * max(SLIGHT, abs(moved[at]))
                    moved[at] += h
                    columns.append((base - runs.short(runs.gradients(
                        only=only, put={**wanted, key: moved}))) / h)
            J = np.stack(columns, axis=1)
            if runs.budget.over or not np.isfinite(J).all():
                return
            change, _, rank, _ = np.linalg.lstsq(J, base, rcond=CLOSE)
            for key, value in wanted.items():
                part, change = change[: value.size], change[value.size :]
                wanted[key] = value + part.reshape(value.shape)
        suspect.could = False

    def _wider_shapes(self, suspect, key):
        """The shapes of arrays that a statement reads, which its own value may have lost."""
        node = suspect.line.node
        reduces = any(isinstance(n, ast.Call) and getattr(n.func, "attr", "") in (
            "sum", "mean", "max") for n in ast.walk(node))
        if not reduces and not isinstance(node, ast.AugAssign):
            return []
        own, shapes = suspect.values[key].shape, set()
        for part in ast.walk(node):
            if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript)):
                try:
                    found = eval(ast.unparse(part), suspect.line.function.space,
                                 dict(self.frames.get(key, {})))
                except Exception:
                    continue
                if isinstance(found, np.ndarray):
                    shapes.add(found.shape)
        return [s for s in sorted(shapes, key=np.prod, reverse=True)
                if s != own and len(s) >= len(own) and _broadcasts(own, s)][:1]

    def _solve_linear(self, suspect):
        runs, size = self.runs, sum(v.size for v in suspect.values.values())
        if not 0 < size <= MOVED or self._collects(suspect):
            return
        only = {key[0] for key in suspect.values}
        base = runs.short(runs.gradients(only=only, put=dict(suspect.values)))
        if not np.isfinite(base).all():
            return
        columns = []
        for key, value in suspect.values.items():
            for at in np.ndindex(value.shape):
                if runs.budget.over:
                    return
                moved = value.copy()
                moved[at] += 1.0
                columns.append(base - runs.short(runs.gradients(
                    only=only, put={**suspect.values, key: moved})))
        J = np.stack(columns, axis=1)
        if not np.isfinite(J).all() or np.abs(J).max() > HUGE:
            return
        suspect.J, suspect.base = J, base
        self.fit(suspect)

    def fit(self, suspect):
        """Solve for values of a Suspect that make the gradients of the goal right."""
        runs, rows = self.runs, self.runs.rows(self.goal | self.kept)
        J, base = suspect.J[rows], suspect.base[rows]
        left, scale, right = np.linalg.svd(J, full_matrices=False)
        good = scale > ZERO * scale.max(initial=0)
        right = right[good]
        change = right.T @ ((left[:, good].T @ base) / scale[good])
        sure = np.abs((right * right).sum(0) - 1) < CLOSE
        at = 0
        for key, value in suspect.values.items():
            part = slice(at, at + value.size)
            suspect.wanted[key] = value + change[part].reshape(value.shape)
            suspect.sure[key] = sure[part].reshape(value.shape)
            at += value.size
        first = next(iter(suspect.values.values())).size
        rest, scale, _ = np.linalg.svd(J[:, first:], full_matrices=False)
        rest = rest[:, scale > ZERO * max(scale.max(initial=0), 1e-300)]
        suspect.effect = J[:, :first] - rest @ (rest.T @ J[:, :first])
        suspect.error = base - rest @ (rest.T @ base)
        only = {key[0] for key in suspect.values}
        suspect.could = not runs.wrong(runs.gradients(only=only, put=suspect.wanted)) & (
            self.goal | self.kept)
        if any(self.base[name].shape != runs.truth[name].shape for name in self.goal):
            suspect.could = suspect.could or None       # with another shape it may
        elif not suspect.could:                         # of what is no gradient, it is not linear
            far = {k: v + 1.0 for k, v in suspect.values.items()}
            then = runs.short(runs.gradients(only=only, put=far))
            if not np.allclose(suspect.base - then, suspect.J.sum(1), 10 * CLOSE, CLOSE / 10):
                suspect.could = None

    def _collects(self, suspect):
        """Solve at once for a statement that adds to the gradients of parameters: the last turn of
        each adds what is missing. Whether it is one."""
        node, runs = suspect.line.node, self.runs
        if not isinstance(node, ast.AugAssign) or not isinstance(node.op, (ast.Add, ast.Sub)) or \
                not ast.unparse(node.target).endswith(".grad") or suspect.argument:
            return False
        sign, last = 1 if isinstance(node.op, ast.Add) else -1, {}
        every = self.gradients_reached(suspect, suspect.keys)
        for key in suspect.keys if len(every) > 1 else suspect.keys[-1:]:
            for name in self.gradients_reached(suspect, [key]) if len(every) > 1 else every:
                last[name] = key
        if not last or len(set(last.values())) < len(last):
            return False
        wide = {}
        for name, key in last.items():
            true, value = runs.truth[name], suspect.values[key]
            if np.isnan(true).any() or not _broadcasts(value.shape, true.shape):
                return False
            suspect.widened |= value.shape != true.shape
            wide[key] = np.broadcast_to(value, true.shape).copy()
        suspect.values |= wide
        suspect.wanted = suspect.values | {
            key: wide[key] + sign * (runs.truth[name] - self.base[name])
            for name, key in last.items()}
        once = len(suspect.values) == len(last)
        suspect.sure = {k: np.full(v.shape, once) for k, v in suspect.values.items()}
        left = runs.wrong(runs.gradients(only={k[0] for k in last.values()}, put=suspect.wanted))
        suspect.could, suspect.collects = not left & (self.goal | self.kept), set(last)
        if once:
            first = suspect.keys[0]
            suspect.effect = sign * np.eye(suspect.values[first].size)
            suspect.error = sign * (suspect.wanted[first] - suspect.values[first]).ravel()
        return True

    def gradients_reached(self, suspect, keys):
        """The names of the gradients that change when values of a Suspect do."""
        moved = self.runs.gradients(only={key[0] for key in keys}, put=suspect.values | {
            key: suspect.values[key] + 1.0 for key in keys})
        return [n for n, g in moved.items() if not np.array_equal(g, self.base[n])]

    def promised_name(self, suspect, key):
        """z of what a Suspect's statement gives to dz."""
        names = self.runs.watch.places[key[0]].names
        adds = isinstance(getattr(suspect.line.node, "op", None), ast.Add)
        if suspect.argument or not names or adds and isinstance(suspect.line.node, ast.AugAssign):
            return ""
        text = names[key[1] % len(names)]
        name = next(iter(stems(text)), "") if not text.split("[")[0].endswith(".grad") else ""
        return name if name in self.names else next(
            (n for n in self.names if n.lower() == name.lower()), "")


def _broadcasts(one, two):
    try:
        return np.broadcast_shapes(one, two) == two
    except ValueError:
        return False
