"""One thing changed in a printed equation: does its check notice?

    python -m tests.book.printed_signs                 # every change of every equation
    python -m tests.book.printed_signs --only 6

KINDS are the changes. The checks of a chapter are run in order, as the build runs them; before
each, one process is forked for every change of its equation, and runs that check with the changed
one. What survives is listed, unless TRUE says why what is then printed is true as well; so is a
reason that nothing needs.
"""

import argparse
import os
import re
import sys

from docs.book import chapter, checks

LETTER = r"(?:\\(?:hat|tilde|dot|bar) )?(?<![A-Za-z\\])[A-Za-z]"
# (label, kind, the part that is changed): why what is printed then holds, or bounds, too.
NORM, SAME, ZERO = ("a norm of what is turned", "what is equal by the premise", "0 is 0, turned")
STABLE = r"dz_j = \Big(\frac{1}{S} - \frac{q_j}{s(z_y)}\Big)\, s'(z_j)"
SPREAD = r"\dot v = \frac{2}{D} \sum_k (x_k - \mu)(\dot x_k - \dot\mu)"
TRUE = {
    ("softmax-2", "sign", None): "c may be any number",
    ("heads-11", "sign", None): "both gradients are zero",
    ("heads-11", "factor", None): "both gradients are zero",
    ("research-8", "sign", None): "theta and g_perp are orthogonal: their sum is as long",
    ("rnn-9", "transpose", None): NORM,
    ("research-11", "transpose", None): NORM,
    ("gru-11", "index", r"row\quad h[_t -> _{t-1}] = h_{t-1}"): SAME,
    ("gru-13", "index", r"|h[_t -> _{t-1}]| \le \max"): "a maximum bounds what it is of",
    ("research-5", "index", r"c{q_j}{s(z[_y -> _{j}])}\Big)\, "): "q_j is 0 but at y",
    (f"19: {STABLE}", "index", r"c{q_j}{s(z[_y -> _{j}])}\Big)\, "): "q_j is 0 but at y",
    ("llama-2", "transpose", r" = R_0 = I[ -> ^\top]"): "the identity is its own",
    ("lstm-14", "transpose", r"f[ -> ^\top] = 0 \;\Ri"): ZERO,
    ("gru-11", "transpose", r"z[ -> ^\top] = 0 \quad"): ZERO,
    ("gru-12", "transpose", r"z[ -> ^\top] = 1,\; r "): "a table of ones is one, turned",
    ("gru-12", "transpose", r"z = 1,\; r[ -> ^\top] = 0 \quad"): ZERO,
    ("heads-10", "transpose", r"> t]\,dx_k[ -> ^\top] = 0"): ZERO,
    ("gpt-9", "transpose", r"dx^{(0)}_k[ -> ^\top] = 0"): ZERO,
    ("lora-6", "transpose", r"B[ -> ^\top] = 0 \quad"): ZERO,
    ("3: p = \\mathrm{ReLU}(h)", "argument", None): "p is 0 or positive: ReLU leaves it",
    ("3: p = \\mathrm{ReLU}(h)", "letter", None): "p is 0 or positive: ReLU leaves it",
    ("10: E[q_i^2] E[k_i^2] - \\mu_i^4 = (\\sigma^2 + \\mu_i^2)^2 - \\mu_i^4", "letter",
     r"[q_i^2] E[[k -> q]_i^2] - \m"): "both have the same means",
    ("attention-15", "letter", r"hrm{rank}([v -> A])"): "a product's rank is at most that of each",
    ("lora-8", "letter", "m{rank}(s [A -> B] B^\\top) \\"): "B has no more columns than A",
    ("heads-8", "letter", r"[Q -> V] = K = V ="): SAME,
    ("heads-8", "letter", "Q = [K -> Q] = V = x \\"): SAME,
    ("heads-8", "letter", r"Q = K = [V -> x] = x \quad"): SAME,
    ("heads-8", "letter", r"= K = V = [x -> K] \quad\Rig"): SAME,
    ("research-3", "number", r" \frac{1}{[2 -> 3]} \Big\rfl"): "a whole number and a third, cut",
    ("research-9", "number", r"\quad \mu_[0 -> 1] = g_1, \q"): "the mean of twice the same",
    (f"9: {SPREAD}", "sign", r"um_k (x_k [- -> +] \mu)(\dot"): "the second factors sum to 0",
    (f"9: {SPREAD}", "sign", r"(\dot x_k [- -> +] \dot\mu)"): "the first factors sum to 0",
}


def depth_of(tex):
    """For each letter, in how many brackets it stands."""
    found, depth = [], 0
    for letter in tex:
        depth -= letter in "})]"
        found.append(depth)
        depth += letter in "{(["
    return found


def sign(tex):
    """A + for a -, and one put before what stands right of an =."""
    depth = depth_of(tex)
    for i, letter in enumerate(tex):
        if letter in "+-":
            yield i, i + 1, "+-"[letter == "+"]
        if letter == "=" and depth[i] == 0 and not re.match(r"\s*(0\b|\\\w+e\b)", tex[i + 1:]):
            yield i + 1, i + 1, " -"


def transpose(tex):
    """One left out, and one put behind a letter or its index."""
    for found in re.finditer(r"\^\\top", tex):
        yield *found.span(), ""
    script = r"(_[A-Za-z](?![A-Za-z])|_\{[^{}]*\})?(?![\w'_^(.}])"
    for found in re.finditer(LETTER + script, tex):
        if depth_of(tex)[found.start()] == 0:
            yield found.end(), found.end(), r"^\top"


def index(tex):
    """One later and one earlier, and another index of the equation for it."""
    scripts = list(re.finditer(r"_(?:\{([^{}\\]*)\}|([a-z]))", tex))
    letters = sorted({x for s in scripts for x in re.findall("[a-z]", s[1] or s[2])
                      if not (s[1] or "").isalpha() or len(s[1] or "") < 3})
    for found in scripts:
        inside = found[1] or found[2]
        if inside in letters:
            yield *found.span(), f"_{{{inside}-1}}"
            yield *found.span(), f"_{{{inside}+1}}"
        if re.fullmatch(r"[a-z]([-+,]\s*\d)?|[a-z]{2}", inside):
            for other in letters:
                if other != inside[0]:
                    yield *found.span(), f"_{{{other}{inside[1:]}}}"


def relation(tex):
    """Turned."""
    turned = {r"\le": r"\ge", r"\ge": r"\le", "<": ">", ">": "<"}
    for found in re.finditer(r"\\le(?![a-z])|\\ge(?![a-z])|[<>]", tex):
        yield *found.span(), turned[found[0]]


def factor(tex):
    """Twice what stands right of a relation."""
    depth = depth_of(tex)
    for found in re.finditer(r"=|\\le(?![a-z])|\\ge(?![a-z])", tex):
        if depth[found.start()] == 0 and not re.match(r"\s*(-|0\b)", tex[found.end():]):
            yield found.end(), found.end(), r" 2\,"


def function(tex):
    """Another."""
    other = {"log": "exp", "exp": "log", "max": "min", "min": "max", "sin": "cos", "cos": "sin",
             "tanh": "sigma", "sigma": "tanh", "sum": "prod", "prod": "sum"}
    for found in re.finditer(r"\\(" + "|".join(other) + r")(?![a-z])", tex):
        yield found.start() + 1, found.end(), other[found[1]]


def fraction(tex):
    """Upside down."""
    inner = r"\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"
    for found in re.finditer(rf"\\frac{inner}{inner}", tex):
        yield *found.span(), rf"\frac{{{found[2]}}}{{{found[1]}}}"


def product(tex):
    """A product of entries for one of matrices, and a sum for it."""
    for found in re.finditer(r"\\odot", tex):
        yield *found.span(), r"\,"
        yield *found.span(), "+"


def argument(tex):
    """Another letter of the equation, alone in brackets behind a name."""
    letters = sorted(set(re.findall(r"(?<![A-Za-z\\])[a-z](?![A-Za-z])", tex)))
    for found in re.finditer(r"(?<=[\w'}])\(([a-z])\)", tex):
        for other in letters:
            if other != found[1]:
                yield *found.span(), f"({other})"


def condition(tex):
    """Both sides of a comparison the same letter."""
    for found in re.finditer(r"\[([a-z]) (\S+) ([a-z])\]", tex):
        for side in (1, 3):
            yield *found.span(), f"[{found[side]} {found[2]} {found[side]}]"


def number(tex):
    """One more, of a decimal in its last place."""
    for found in re.finditer(r"\d+(?!\.|\d)", tex):
        yield *found.span(), str(int(found[0]) + 1).zfill(len(found[0]))


def letter(tex):
    """For a letter that stands alone the next one of the equation."""
    alone = list(re.finditer(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])", tex))
    there = sorted({found[0] for found in alone})
    for found in alone if len(there) > 1 else ():
        yield *found.span(), there[(there.index(found[0]) + 1) % len(there)]


KINDS = {kind.__name__: kind for kind in (sign, transpose, index, relation, factor, function,
                                          fraction, product, argument, condition, number,
                                          letter)}


def changes(tex):
    """[(kind, what is changed, the TeX with it)] of an equation."""
    return [(kind, f"{tex[max(0, start - 10): start]}[{tex[start:end]} -> {new}]"
                   f"{tex[end: end + 10]}".replace("\n", " "), tex[:start] + new + tex[end:])
            for kind in KINDS for start, end, new in dict.fromkeys(KINDS[kind](tex))]


def noticed(one, part, texts, space):
    """Whether the check fails with another equation, tried in a process of its own."""
    child = os.fork()
    if child == 0:
        try:
            sys.stderr = open(os.devnull, "w")              # warnings of what is wrong
            checks.run_check(one, part, texts, space)
        except chapter.BookError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def survivors(one):
    """(label, kind, what, whether the check noticed it) of every change in a chapter. A formula of
    the text has its chapter's number and itself for a label."""
    space = checks.make_namespace(one.name)
    for part in one.directives("equation", "said"):
        texts = one.formulas[part.given]
        for name, tex in texts.items():
            label = name if part.name == "equation" else f"{one.number}: {name}"
            for kind, what, made in changes(tex):
                yield label, kind, what, noticed(one, part, texts | {name: made}, space)
        checks.run_check(one, part, texts, space)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="only these chapters")
    options = parser.parse_args(argv)
    found = [row for path in chapter.list_chapters()
             if not options.only or int(path.name[:2]) in options.only
             for row in survivors(chapter.read_chapter(path))]
    lost = [(label, kind, what) for label, kind, what, seen in found
            if not seen and (label, kind, what) not in TRUE and (label, kind, None) not in TRUE]
    for label, kind, what in lost:
        print(f"{label}: {kind}: {what} passes")
    passed = {(label, kind, part) for label, kind, what, seen in found if not seen
              for part in (what, None)}
    stale = {key for key in TRUE if key[0] in {row[0] for row in found}} - passed
    for label, kind, what in sorted(stale, key=str):
        print(f"{label}: {kind}: {what or 'any'}: a reason, and nothing passes")
    true = sum(not row[3] for row in found) - len(lost)
    print(f"{len(found)} changes of {len({row[0] for row in found})} equations, "
          f"{len(found) - len(lost) - true} noticed, {true} true as well, {len(lost)} not noticed")
    return bool(lost or stale)


if __name__ == "__main__":
    sys.exit(main())
