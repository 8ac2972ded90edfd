"""Which small change of a suspected statement makes every gradient right: the proof.

A change is tried where the linear system allows it, then run, then run on inputs and upstream
gradients that it was not found on.
"""

import ast
import contextlib
import itertools
from dataclasses import dataclass

import numpy as np

from npdl_study.blame.edits import Edit, edits, holds_itself
from npdl_study.blame.fits import fits
from npdl_study.blame.operands import operands
from npdl_study.blame.suspects import frame_near
from npdl_study.blame.weights import SLIP, STAGES
from npdl_study.blame.words import Words, in_reach, is_pure, words_of
from npdl_study.trace.runs import quiet, unwritten
from npdl_study.trace.source import patched, recompiled
from npdl_study.trace.syntax import bound_by, cloned, names_of, parsed

PART = "__npdl_part__"
TOKENS = ("sign", "factor", "axis", "transposed", "number", "name", "order")
MOST_RUN = 1500                 # changes of one statement that are run
TO_COMPILE, TO_TRY = 3, 10      # what a node of a function, and an expression, take of a Budget


@dataclass
class Proof:
    """A change of a Line after which every gradient is right."""

    cost: float
    kind: str
    line: object
    old: str
    new: str
    suspect: object = None
    words: str = ""
    inlines: str = ""           # the name in whose place it puts more than a name
    edit: object = None

    @property
    def rank(self):
        return self.cost, *(self.suspect.rank if self.suspect else (2, 0, 0))


class Prove:
    """Tries changes of statements; `runs` is what is wrong, `others()` gives more Runs
    that have to be right, `spared` are gradients that are wrong for another reason."""

    def __init__(self, runs, frames, others, spared=(), forwards=()):
        self.runs, self.watch, self.frames = runs, runs.watch, frames
        self.others, self.spared, self.forwards = others, spared, forwards
        self.known = {}

    def edit(self, line, suspect=None, most=STAGES[-1], least=0.0):
        """The Proof by the cheapest edit of a Line, cheaper than `most`, of those that cost
        `least`; or None."""
        own = 1 + (isinstance(line.node, ast.AugAssign) and not isinstance(line.node.op, ast.Add))
        values = suspect is None or suspect.could is not False or len(line.places) > own
        found = edits(line.node, self.words(line), values, most, least)
        return self._first(line, suspect, ((edit, "") for edit in found))

    def fit(self, suspect):
        """The Proof by what is missing in the numbers of a Suspect; or None."""
        key, line = suspect.first_wrong(), suspect.line
        node = expression(line.node, self.runs.watch.places[key[0]])
        if suspect.handed:
            node = parsed(suspect.handed)
        if node is None or key not in suspect.wanted or suspect.argument and not suspect.handed \
                and not isinstance(line.node.value, ast.Tuple):
            return None
        names = in_reach(line, self.frames.get(key, {}))
        wanted = suspect.wanted[key]
        found = fits(suspect.values[key], wanted, ast.unparse(node), operands(names, wanted))
        value = getattr(line.node, "value", None)
        around = (line.node, "value") if node is value else (value, "elts")
        changes = ((Edit(cost, kind, node, new, line.node, line.node, around=around), words)
                   for cost, kind, new, words in found)
        if suspect.handed:
            changes = ((Edit(cost, "missing line", None, [ast.Assign([ast.Name(
                suspect.handed, ast.Store())], parsed(new)), line.node], line.node),
                "a line is missing before it") for cost, kind, new, words in found)
        return self._first(line, suspect, changes, False)

    def term(self, line, suspect, cost, term):
        """The Proof by a term, " - a * b", after the whole value of a Line; or None."""
        node = line.node
        edit = Edit(cost, "missing term", node.value, ast.unparse(node.value) + term, node, node,
                    around=(node, "value"))
        return self._first(line, suspect, [(edit, f"a term is missing: {term.strip()}")], False)

    def missing(self):
        """The Proofs by a line at the end of a loop, that gives a name which the loop reads first
        what the next turn is to have."""
        ran = {self.watch.places[key[0]].function for key in self.frames}
        proofs = []
        for line in (line for f in ran for line in f.lines):
            if not line.loops or line.loops[-1].body[-1] is not line.node:
                continue
            loop, words = line.loops[-1], self.words(line)
            frame = frame_near(self.frames, self.watch.places, line)
            inside = {name for node in ast.walk(loop) for name in bound_by(node)} - {
                name for node in loop.body if isinstance(node, ast.Assign)      # dh = dh + ..
                for name in bound_by(node) & names_of(node.value)}
            carried = [n for n in names_of(loop) - inside if n in frame and
                       isinstance(frame[n], np.ndarray) and n in names_of(*(
                           t for node in ast.walk(line.function.node)
                           for t in getattr(node, "targets", ())))]
            for name in sorted(carried):
                space = {**line.function.space, **frame}
                changes = ((Edit(2, "missing line", None, [line.node, new], line.node), "")
                           for new in assignments(name, words.arrays, space))
                proofs += filter(None, [self._first(line, None, changes, False)])
        return proofs

    def forward(self, line, least):
        """The Proof by a slip of one token in a Line of forward, after which the backward is right
        as it is; or None."""
        words = Words(numbers=self._numbers())
        slips = ((edit, "") for edit in edits(line.node, words, True, SLIP)
                 if edit.kind in TOKENS and self.runs.budget.left > least)
        return self._first(line, None, slips, False, self._derives)

    def _numbers(self):
        """The numbers that a backward writes."""
        ran = {self.watch.places[key[0]].function for key in self.frames}
        nodes = [n for f in ran for n in ast.walk(f.node) if isinstance(n, ast.Constant)]
        return sorted({repr(n.value) for n in nodes if type(n.value) is float})

    def _derives(self):
        """Whether the backward is the derivative of the forward that runs now."""
        with unwritten(self.runs.subject.layer):
            found = self.runs.gradients()
        wrong = self.runs.wrong(found)
        return all(found[name].any() for name in wrong) and all(
            self.runs.is_slope(name, found[name]) for name in sorted(
                found, key=lambda name: name not in wrong))

    def _works(self):
        return self.runs.works(self.spared) and all(
            other.works(self.spared) for other in self.others())

    def _first(self, line, suspect, changes, filtered=True, works=None):
        function = line.function
        place = block_of(function.node, line.node)
        if place is None:
            return None
        counts = isinstance(line.node, ast.While)       # what may never end is left alone
        inside = any(isinstance(n, ast.While) for n in line.loops)
        block, at = place
        handed = {a.arg for a in function.node.args.args} if not isinstance(
            line.node, ast.AugAssign) else ()
        fills = any(word in line.text for word in (".append(", ".insert(", ".extend("))
        gives = self._gives(line, suspect) if filtered else None
        ran, size = 0, TO_COMPILE * sum(1 for _ in ast.walk(function.node))
        for edit, words in changes:
            if self.runs.budget.over or ran > MOST_RUN:
                return None
            if (edit.value or suspect is not None and suspect.argument) and gives and not gives(
                    edit):
                continue
            if counts and edit.kind not in ("number", "comparison") or inside and not (
                    edit.value and suspect is not None and suspect.could):
                continue
            try:
                with edit.made() as body:
                    if fills and holds_itself(body) or isinstance(body[0], ast.AugAssign) and \
                            ast.unparse(body[0].target) in handed:
                        continue                        # dy += would write into what is handed in
                    with _put(edit, body, line, block, at) as code:
                        pass
            except (SyntaxError, ValueError, TypeError):
                continue
            ran += 1
            self.runs.budget.spend(size)
            if code is None:
                continue
            with self.watch.edited(function, code):
                try:
                    good = (works or self._works)()
                except Exception:                       # it can't be run so
                    good = False
            if good:
                with edit.made() as body:
                    new = "; ".join(ast.unparse(n).split("\n")[0] for n in body)
                return Proof(edit.cost, edit.kind, line, *in_its_words(line, edit, new), suspect,
                             words, inlined(edit, line.node), edit)
        return None

    def _gives(self, line, suspect):
        """A function that tells of an expression whether it gives what a Suspect has to be."""
        if suspect is None or not suspect.could or not suspect.solved or \
                len(line.places) != 1 and not suspect.argument:
            return None
        value = line.node.value if not suspect.argument else next((
            n for n in ast.walk(line.node) if isinstance(n, ast.expr)
            and ast.unparse(n) == self.watch.places[suspect.keys[0][0]].text), None)
        if value is None or not is_pure(value):
            return None
        inside = set(ast.walk(value))
        key = suspect.keys[0]
        shape = suspect.values[key].shape
        space = {**line.function.space, **self.frames.get(key, {})}
        wholes, parts = {}, {}

        def part_of(new):
            text = new if isinstance(new, str) else ast.unparse(new)
            if text not in parts:
                try:
                    parts[text] = eval(compile(text, "edit", "eval"), space)
                except Exception:
                    parts[text] = None
            return parts[text]

        def gives(edit):
            if edit.part not in inside:
                return not suspect.argument
            self.runs.budget.spend(TO_TRY)
            try:
                with quiet():
                    if isinstance(edit.part, (ast.Slice, ast.keyword, ast.Starred, ast.Constant)):
                        new = parsed(edit.new) if isinstance(edit.new, str) else edit.new
                        code = compiled(cloned(value, edit.part, new))
                        found = eval(code, space)
                    else:
                        if edit.part not in wholes:
                            wholes[edit.part] = compiled(cloned(value, edit.part, ast.Name(
                                PART, ast.Load())))
                        part = part_of(edit.new)
                        found = part is not None and eval(wholes[edit.part], space | {PART: part})
                    found = np.asarray(found, dtype=float)
                if found.shape != shape:
                    found = found.reshape(shape) if found.size == np.prod(shape) else \
                        np.broadcast_to(found, shape)
                return suspect.gives(found)
            except Exception:
                return False
        return gives

    def words(self, line):
        """The Words of a Line."""
        if line not in self.known:
            self.known[line] = words_of(line, frame_near(self.frames, self.watch.places, line),
                                        self.watch, self.forwards)
        return self.known[line]


@contextlib.contextmanager
def _put(edit, body, line, block, at):
    """The code of a Line's function with an Edit's statements in it, which stay while the block
    runs."""
    function = line.function
    for node in body if edit.part is None else body[:1]:
        ast.copy_location(node, line.node)
        if edit.part is None:
            ast.fix_missing_locations(node)
    block[at : at + 1] = body
    try:
        yield recompiled(function.code, function.node, function.owner)
    finally:
        block[at : at + len(body)] = [line.node]


@contextlib.contextmanager
def applied(proof):
    """Run the student's code, and let it be read, with the change of a Proof."""
    function = proof.line.function
    block, at = block_of(function.node, proof.line.node)
    with proof.edit.made() as body, _put(proof.edit, body, proof.line, block, at) as code, \
            contextlib.ExitStack() as stack:
        for f in function.functions:
            stack.enter_context(patched(f, code))
        yield


def in_its_words(line, edit, new):
    """(a statement, what it is changed to), as the line itself is written; as Python writes them
    where that is not one line, or not one expression in it."""
    old, node, part = line.source.encode(), line.node, edit.part
    at = [getattr(part, name, None) for name in ("lineno", "end_lineno")]
    if part is None or at != [node.lineno] * 2 or node.end_lineno != node.lineno:
        return line.text, new
    text = ast.unparse(parsed(edit.new) if isinstance(edit.new, str) else edit.new)
    first = node.col_offset
    old = old[: node.end_col_offset - first]
    for put in (text, f"({text})"):
        found = (old[: part.col_offset - first] + put.encode()
                 + old[part.end_col_offset - first :]).decode()
        with contextlib.suppress(SyntaxError):
            if ast.dump(ast.parse(found)) == ast.dump(ast.parse(new)):
                return old.decode(), found
    return line.text, new


def inlined(edit, node):
    """The name that an Edit puts more than a name in the place of; not of a whole value, nor of
    another array."""
    if not isinstance(edit.part, ast.Name) or edit.part is getattr(node, "value", None):
        return ""
    text = edit.new if isinstance(edit.new, str) else ast.unparse(edit.new)
    return "" if text.isidentifier() else edit.part.id


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


def expression(node, place):
    """The expression in a statement that a place computes."""
    text = place.text
    value = getattr(node, "value", None)
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return next((p for p in parts if p is not None and ast.unparse(p) == text), None)


def compiled(node):
    return compile(ast.fix_missing_locations(ast.Expression(node)), "edit", "eval")


def block_of(tree, statement):
    """(the list of statements that holds a statement, its index in it)."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            for i, child in enumerate(block if isinstance(block, list) else ()):
                if child is statement:
                    return block, i
    return None
