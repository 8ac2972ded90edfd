"""Parse TeX, in the notation of the book, into a tree: relations of expressions.

A symbol keeps its sub- and superscripts as they are written. The values that are given decide if
`W_x` is a name or the entry x of W (values.py).
"""

import re
from dataclasses import dataclass

SPACES = re.compile(r"\\[,;:! ]|\\q?quad\b|~|\s+|(?P<size>\\[bB]igg?[lr]?\b)")
TOKEN = re.compile(r"\\(?:mathrm|text)\{(?P<word>[^{}]*)\}|\\mathcal\{(?P<script>\w)\}"
                   r"|\\mathbf\{1\}|\\(begin|end)\{\w+\}|\\[A-Za-z]+|\\.|\d+(\.\d+)?|\S")
RELATIONS = {"=": "=", r"\le": "<=", r"\ge": ">=", "<": "<", ">": ">", r"\ne": "!=",
             r"\approx": "~", r"\leftarrow": "<-", r"\in": "in"}
ACCENTS = {r"\dot": "dot", r"\hat": "hat", r"\tilde": "tilde", r"\bar": "bar"}
OPERATIONS = {r"\odot": "times", r"\cdot": "dot", "/": "over", r"\bmod": "mod"}
FUNCTIONS = ("log", "exp", "sin", "cos", "tanh", "max", "min", "sign")
BRACKETS = {"(": (")", "several"), "[": ("]", "beside"), "|": ("|", "abs"),
            r"\langle": (r"\rangle", "inner"), r"\lVert": (r"\rVert", "norm"),
            r"\lfloor": (r"\rfloor", "floor"), r"\lceil": (r"\rceil", "ceil")}
PARTS = (",", ":", r"\Rightarrow", None)
STOPS = {*PARTS, *RELATIONS, "+", "-", "}", "&", r"\\", r"\}", r"\end{cases}",
         *(closing for opening, (closing, _) in BRACKETS.items() if closing != opening)}
GREEK = {r"\varphi": "phi", r"\lambda": "lam", r"\varepsilon": "epsilon", r"\ell": "l"}


class NotRead(ValueError):
    """TeX that is not in the notation of the book."""


@dataclass(frozen=True)
class Number:
    """A number that is printed with `places` digits after the point."""

    parts = ()                                          # the nodes below this one
    value: float
    places: int = 0


@dataclass(frozen=True)
class Symbol:
    """A name with scripts. `low` and `high` are (form in a variable's name, Tokens), or None."""

    parts = ()
    base: str
    low: tuple = None
    high: tuple = None
    attribute: str = ""

    @property
    def is_bare(self):
        return not (self.low or self.high or self.attribute)


@dataclass(frozen=True)
class Apply:
    """An operation of values.py on operands: a product, a call, an entry, a relation."""

    operation: str
    parts: tuple


@dataclass(frozen=True)
class Big:
    """A sum, prod, max or min of `body` over `names`, which may have `members` or a `condition`."""

    kind: str
    names: tuple
    members: object
    condition: tuple
    body: object

    @property
    def parts(self):
        return (self.body,)


def walk_tree(node):
    """Yield a node and all nodes below it."""
    yield node
    for part in node.parts:
        yield from walk_tree(part)


def find_symbols(node):
    """Return the Symbols of a tree, without those in scripts."""
    return [one for one in walk_tree(node) if isinstance(one, Symbol)]


@dataclass(frozen=True)
class Token:
    """A token: its TeX `text`, its `word` in a name; `glued` if no space is before it."""

    text: str
    word: str
    glued: bool


def read_tokens(tex):
    """Return the list of Tokens of a TeX text, without spaces."""
    found, at, end = [], 0, -1
    while at < len(tex):
        match = SPACES.match(tex, at)
        if match is None:
            match = TOKEN.match(tex, at)
            word = match["word"] or match["script"] or GREEK.get(match[0], match[0].lstrip("\\"))
            found.append(Token(match[0], re.sub(r"\\_| ", "_", word), end == at))
            end = match.end()
        elif match["size"] and end == at:
            end = match.end()
        at = match.end()
    return found


def parse_equation(tex):
    """Return the statements of an equation. Each is a tuple of relations: a = b = c gives two.

    Raises NotRead with the part that can't be parsed.
    """
    reader = _Parser(read_tokens(tex))
    statements = [reader.parse_relations()]
    while reader.peek() is not None:
        if not reader.take(*PARTS[:-1]):
            reader.fail()
        statements.append(reader.parse_relations())
    return statements


class _Parser:
    def __init__(self, tokens):
        self.tokens, self.at, self.inside_bars = tokens, 0, False

    def peek(self, by=0):
        return self.tokens[self.at + by].text if self.at + by < len(self.tokens) else None

    def take(self, *texts):
        """Step over the next token and return its text if it is one of these, else return None."""
        return self.advance().text if self.peek() in texts else None

    def advance(self):
        """Step over the next token and return it."""
        self.at += 1
        return self.tokens[self.at - 1]

    def expect(self, text):
        if not self.take(text):
            self.fail(f"{text} is missing")

    def fail(self, why=""):
        rest = " ".join(token.text for token in self.tokens[self.at: self.at + 8])
        raise NotRead(f"{why + ': ' if why else ''}cannot read {rest or 'the end'!r}")

    # -- relations and sums --------------------------------------------------------------------

    def parse_relations(self):
        left, chain = self.parse_expression(), []
        while (found := self.take(*RELATIONS)) is not None:
            right = self.parse_expression()
            chain.append(Apply(RELATIONS[found], (left, right)))
            left = right
        if not chain:
            self.fail("no relation such as =")
        return tuple(chain)

    def parse_expression(self):
        sign = self.take("+", "-")
        made = self.parse_term()
        if sign == "-":
            made = Number(-made.value, made.places) if isinstance(made, Number) else Apply(
                "neg", (made,))
        while (sign := self.take("+", "-")) is not None:
            made = Apply("add" if sign == "+" else "sub", (made, self.parse_term()))
        return made

    def parse_term(self):
        made = self.parse_factor()
        while self.peek() not in STOPS and not (self.inside_bars and self.peek() == "|"):
            kind = OPERATIONS.get(self.take(*OPERATIONS), "by")
            made = Apply(kind, (made, self.parse_factor()))
        return made

    # -- factors -------------------------------------------------------------------------------

    def parse_factor(self):
        text = self.peek()
        if text in (r"\sum", r"\prod") or text in (r"\max", r"\min") and self.peek(1) == "_":
            return self.parse_big_operator()
        if text and text[1:] in FUNCTIONS and text[0] == "\\":
            return self.parse_function()
        return self.parse_powers(self.parse_atom())

    def parse_powers(self, base):
        while (script := self.take("^", "_")) is not None:
            if script == "_":
                base = Apply("entry", (base, *parse_script(self.take_script())))
            elif self.take(r"\top"):
                base = Apply("transposed", (base,))
            else:
                base = Apply("power", (base, self.parse_group()))
        return base

    def parse_group(self):
        """Parse the content of braces, or the one token after ^."""
        if not self.take("{"):
            return self.parse_atom(scripts=False)
        made = self.parse_expression()
        self.expect("}")
        return made

    def parse_function(self):
        name = self.advance().word
        prime = "_prime" * bool(self.take("'"))
        power = self.parse_group() if self.take("^") else None
        if self.take("("):
            made = Apply("call", (Symbol(name + prime), *self.parse_expressions(")")))
        else:
            made = Apply("call", (Symbol(name), self.parse_factor()))
        return Apply("power", (made, power)) if power else self.parse_powers(made)

    def parse_expressions(self, closing):
        found = [self.parse_expression()]
        while self.take(","):
            found.append(self.parse_expression())
        self.expect(closing)
        return tuple(found)

    def parse_big_operator(self):
        """Parse a sum, product, maximum or minimum, with a range, a set or a condition."""
        kind, low, high = self.advance().word, (), None
        while (script := self.take("_", "^")) is not None:
            if script == "^":
                high = self.parse_group()
            else:
                low = self.take_script()
        inner = _Parser(low)
        names, members, condition = [inner.parse_index()], None, None
        while inner.take(","):
            names.append(inner.parse_index())
        is_range = bool(inner.take("="))
        if is_range != (high is not None):
            self.fail("a sum needs both a start and an end, or neither")
        if is_range:
            members = Apply("range", (inner.parse_expression(), high))
        elif inner.take(r"\in"):
            members = inner.parse_expression()
        elif inner.take(":"):
            condition = inner.parse_relations()
        elif inner.peek() is not None:
            inner.at = 0
            condition = inner.parse_relations()
        if inner.peek() is not None:
            inner.fail()
        return Big(kind, tuple(names), members, condition, self.parse_term())

    def parse_index(self):
        word = self.advance().word
        if not word.isidentifier():
            self.fail("an index must be a letter")
        return word + "_prime" * bool(self.take("'"))

    def take_script(self):
        """Step over a sub- or superscript and return its Tokens."""
        if not self.take("{"):
            return (self.advance(),)
        start, depth = self.at, 1
        while depth:
            if self.peek() is None:
                self.fail("} is missing")
            depth += (self.peek() == "{") - (self.peek() == "}")
            self.at += 1
        return tuple(self.tokens[start: self.at - 1])

    # -- atoms ---------------------------------------------------------------------------------

    def parse_atom(self, scripts=True):
        text = self.peek()
        if text in STOPS or text in ("^", "_"):
            self.fail()
        if text[0].isdigit():
            self.advance()
            return Number(float(text), len(text.partition(".")[2]))
        if self.take(*BRACKETS):
            return self.parse_brackets(text)
        if self.take(r"\sqrt"):
            return Apply("call", (Symbol("sqrt"), self.parse_group()))
        if self.take(r"\frac"):
            return self.parse_fraction()
        if self.take(r"\mathbf{1}"):
            self.expect("[")
            made = Apply("where", self.parse_relations())
            self.expect("]")
            return made
        if self.take(r"\begin{cases}"):
            return self.parse_cases()
        return self.parse_symbol(scripts)

    def parse_brackets(self, opening):
        closing, kind = BRACKETS[opening]
        before, self.inside_bars = self.inside_bars, opening == "|"
        found = self.parse_expressions(closing)
        self.inside_bars = before
        if len(found) > 1 and kind in ("abs", "norm", "floor"):
            self.fail("these brackets contain one expression")
        return found[0] if opening == "(" and len(found) == 1 else Apply(kind, found)

    def parse_fraction(self):
        if self.peek(1) != r"\partial":
            return Apply("over", (self.parse_group(), self.parse_group()))
        indices, names = [], []                         # an entry of dy_dx, with all indices
        for _ in range(2):
            self.at += 2
            one = self.parse_symbol(True)
            names.append("d" + "_".join([one.base, *([one.high[0]] if one.high else [])]))
            indices += parse_script(one.low[1])
            self.expect("}")
        return Apply("entry", (Symbol("_".join(names)), *indices))

    def parse_cases(self):
        found = ()
        while not self.take(r"\end{cases}"):
            value = self.parse_expression()
            self.expect("&")
            found += value, Apply("where", self.parse_relations())
            self.take(r"\\")
        return Apply("cases", found)

    def parse_symbol(self, scripts):
        base = self.parse_name()
        if self.take("'"):
            base += "_prime"
        low = high = None
        attribute = ""
        while scripts and (script := self.take("_", "^", ".")):
            if script == ".":
                attribute = "_" + self.advance().word
            elif script == "_":
                low = self.take_named_script()
            elif base == "e" or self.peek() == r"\top" or not self.is_name_script():
                self.at -= 1
                break
            else:
                high = self.take_named_script()
        made = Symbol(base, low, high, attribute)
        while self.peek() in ("(", "[") and self.tokens[self.at].glued:
            closing = ")" if self.take("(") else self.take("[") and "]"
            made = Apply("call", (made, *self.parse_expressions(closing)))
        return made

    def is_name_script(self):
        """Return True if a superscript is part of a name, as in h^f or x^{(l)}, and not a power."""
        inside = self.tokens[self.at + (self.peek() == "{")]
        return inside.text == "(" or inside.text.startswith(r"\mathrm") or (
            self.peek() != "{" and inside.text in ("f", "b"))

    def take_named_script(self):
        """Step over a script; return its form in a name, such as "prev" for t-1, and its Tokens."""
        inside = self.take_script()
        word = "".join(token.word for token in inside)
        return {"t-1": "prev", "t+1": "next"}.get(word, word.replace("'", "_prime")), inside

    def parse_name(self):
        token = self.advance()
        if token.text in ACCENTS:
            braced = self.take("{")
            inner = self.parse_name()
            if braced:
                self.expect("}")
            return f"{inner}_{ACCENTS[token.text]}"
        after = self.tokens[self.at] if self.peek() else None
        if token.text == "d" and after and after.glued:
            if after.text == "(":
                start = self.at
                self.at += 1
                self.parse_expressions(")")
                return "d" + "".join(t.word for t in self.tokens[start: self.at])
            if after.text in ACCENTS or after.word.replace("_", "").isalpha() and (
                    after.text[0] != "\\" or after.text in (r"\theta", r"\mu")
                    or after.text.startswith(r"\mathrm")):
                return "d" + self.parse_name()
        if not re.fullmatch(r"[\w.]+", token.word):
            self.at -= 1
            self.fail()
        return token.word.replace(".", "_")


def parse_script(tokens):
    """Return a subscript as a tuple of index expressions: two for rs, one for t - 1."""
    is_product = len(tokens) > 1 and tokens[0].text[0].isdigit()        # 2k is one index
    if is_product or any(token.text in (",", "+", "-", "/") for token in tokens):
        return _Parser([*tokens, Token(")", ")", False)]).parse_expressions(")")
    reader, found = _Parser(tokens), ()
    while reader.peek() is not None:
        found += (reader.parse_atom(),)
    return found
