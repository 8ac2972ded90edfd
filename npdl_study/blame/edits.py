"""Small edits of one statement of a function, tried to find out which of them makes it right.

An edit changes one thing: an operator, a number, a name, a transpose, the axis of a sum
(npdl_study.blame.slips), a length, a slice, a bracket (counts), a term or a factor that is not there
(lacking). npdl_study.blame.repair tries them.
"""

import ast
import io
import itertools
import textwrap
import tokenize
from dataclasses import dataclass, replace

from npdl_study.blame.counts import PLAIN_COUNT, counts
from npdl_study.blame.lacking import lacking, lacking_whole
from npdl_study.blame.slips import other_keys, slips
from npdl_study.trace.pairs import partners
from npdl_study.trace.syntax import SIGNS, binary, cloned, exchanged, header, names_of, terms

LENGTHS_OF = ("len", "np.zeros_like", "np.ones_like", "np.empty_like")
ONLY_LENGTHS = 8                # the rank of another array that only lends its shape


@dataclass
class Edit:
    """A statement's replacement; `rank` orders edits from the likeliest slip to the least."""

    rank: int
    kind: str
    was: str
    now: str
    node: ast.AST
    of: object = None               # the Statement, where it is one of several on a line


def edits(statement, words):
    """Every Edit of a statement, of a Vocabulary, the likeliest first."""
    if statement.parts:
        found = [replace(edit, of=part) for part in statement.parts for edit in edits(part, words)]
        return sorted(found, key=lambda edit: edit.rank)
    whole = header(statement.node)
    found = [*_of_nodes(whole, words), *_of_pairs(whole, words), *_of_tokens(statement),
             *_of_lacks(statement, whole, words)]
    meant = {own for name in statement.binds for own in partners(name)}
    return sorted((edit for edit in found if not holds_itself(edit.node)),
                  key=lambda edit: (edit.rank, edit.now not in meant))


def _of_nodes(whole, words):
    """One node of the statement for another."""
    steps = {id(part) for node in ast.walk(whole) if isinstance(node, ast.Slice)
             and node.step is not None for part in ast.walk(node.step)}
    measured = set(_measured(whole))
    for node in ast.walk(whole):
        for rank, kind, new in itertools.chain(
                slips(node, words, node is getattr(whole, "value", None)), counts(node, words),
                lacking(node, words), other_keys(node, words.keys)):
            if id(node) in steps:
                kind = "reversed"
            elif kind == "name" and id(node) in measured:
                rank = ONLY_LENGTHS
            elif kind == "count" and ast.unparse(new) in words.known:
                rank = PLAIN_COUNT
            yield Edit(rank, kind, ast.unparse(node), ast.unparse(new), cloned(whole, node, new))


def _measured(node):
    """The ids of the nodes of which a statement reads the lengths alone: x in x.shape[0]."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and part.attr in ("shape", "size", "ndim"):
            yield id(part.value)
        elif isinstance(part, ast.Call) and ast.unparse(part.func) in LENGTHS_OF:
            yield from map(id, part.args)


def _of_pairs(whole, words):
    """Two slices, or two arrays, that change places: y[:n] = x[k:] for y[k:] = x[:n]."""
    slices = [node for node in ast.walk(whole) if isinstance(node, ast.Slice)
              and not node.lower is node.upper is None]
    for one, other in itertools.combinations(slices, 2):
        if ast.unparse(one) != ast.unparse(other):
            yield Edit(3, "window", ast.unparse(one), ast.unparse(other),
                       cloned(whole, one, other, other, one))
    for one, other in itertools.combinations(_read(whole, words), 2):
        yield Edit(3, "swapped", one, other, exchanged(whole, one, other))


def _read(node, words):
    """The arrays that a statement reads, as source."""
    found = {ast.unparse(part) for part in ast.walk(node) if isinstance(
        part, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(part.ctx, ast.Load)}
    return sorted(found & set(words.arrays))


def _of_tokens(statement):
    """Edits of one operator in the text, so that the order of operations may change too."""
    source = textwrap.dedent(statement.source)
    lines = source.splitlines()
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source + "\n").readline))
    except (tokenize.TokenError, IndentationError):
        return
    for token in (token for token in tokens if token.string in SIGNS):
        row, start = token.start
        line = lines[row - 1]
        for sign in (sign for sign in SIGNS if sign != token.string):
            changed = [*lines]
            changed[row - 1] = line[:start] + sign + line[start + len(token.string):]
            try:
                node = ast.parse("\n".join(changed)).body[0]
            except SyntaxError:
                continue
            yield Edit(2, "operator", token.string, sign, node)


def _of_lacks(statement, whole, words):
    """A term or a factor that the whole expression lacks; a loop's index that one term lacks."""
    value = getattr(whole, "value", None)
    if statement.binds and isinstance(whole, (ast.Assign, ast.AugAssign)):
        factors = sorted(text for text in words.known
                         if names_of(ast.parse(text)) <= {*words.names, "np", "self"})
        most = 4 if isinstance(value, ast.Name) else ONLY_LENGTHS       # dz = da: what was meant?
        for rank, kind, new in lacking_whole(value, words, factors):
            yield Edit(min(rank, most), kind, ast.unparse(value), ast.unparse(new),
                       cloned(whole, value, new))
    for term, name in itertools.product(terms(value), words.local("index")):
        new = binary(term, "*", ast.Name(name, ast.Load()))
        yield Edit(5, "missing factor", ast.unparse(term), ast.unparse(new),
                   cloned(whole, term, new))


def holds_itself(node):
    """Whether a statement puts a list into itself, of which NumPy makes an array without an end."""
    return any(isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
               and call.func.attr in ("append", "insert", "extend")
               and any(ast.unparse(call.func.value) == ast.unparse(a) for a in call.args)
               for call in ast.walk(node))
