"""Change one thing in a printed equation: does the equation's check notice?

    python -m tests.book.printed_signs                 # every change of every equation
    python -m tests.book.printed_signs --only 6

KINDS are the kinds of changes. The checks of a chapter run in order, as in a build. Before each,
one process is forked for every change of its equation, and runs the check with the changed
equation. The command lists every change that a check does not notice, unless TRUE gives a reason
why the changed equation is true as well. It also lists the reasons in TRUE that nothing needs.
"""

import argparse
import os
import re
import sys

from docs.book import chapter, checks

LETTER = r"(?:\\(?:hat|tilde|dot|bar) )?(?<![A-Za-z\\])[A-Za-z]"
NORM, SAME = "a norm of the transpose is the same", "the two are equal by the premise"
STABLE = r"dz_j = \Big(\frac{1}{S} - \frac{q_j}{s(z_y)}\Big)\, s'(z_j)"
SPREAD = r"\dot v = \frac{2}{D} \sum_k (x_k - \mu)(\dot x_k - \dot\mu)"
TRUE = {        # (label, kind, the changed part or None for any): why the change is true as well
    ("softmax-2", "sign", None): "c may be any number",
    ("heads-11", "sign", None): "both gradients are zero",
    ("heads-11", "factor", None): "both gradients are zero",
    ("research-8", "sign", None): "theta and g_perp are orthogonal: their sum is as long",
    ("rnn-9", "transpose", None): NORM,
    ("gru-13", "index", r"|h[_t -> _{t-1}]| \le \max"): "a maximum bounds what it is of",
    ("research-5", "index", r"c{q_j}{s(z[_y -> _{j}])}\Big)\, "): "q_j is 0 but at y",
    (f"19: {STABLE}", "index", r"c{q_j}{s(z[_y -> _{j}])}\Big)\, "): "q_j is 0 but at y",
    ("llama-2", "transpose", r"p = R_0 = [I -> I^\top]"): "the identity is its own",
    ("3: p = \\mathrm{ReLU}(h)", "letter", None): "p is 0 or positive: ReLU leaves it",
    ("10: E[q_i^2] E[k_i^2] - \\mu_i^4 = (\\sigma^2 + \\mu_i^2)^2 - \\mu_i^4", "letter",
     r"[q_i^2] E[[k -> q]_i^2] - \m"): "both have the same means",
    ("attention-15", "letter", r"hrm{rank}([v -> A])"): "a product's rank is at most that of each",
    ("decoding-6", "letter", r" \mathcal{[W -> s]}} s_y"): "s has an entry for each hypothesis",
    ("lora-8", "letter", "m{rank}(s [A -> B] B^\\top) \\"): "B has no more columns than A",
    ("heads-8", "letter", r"[Q -> V] = K = V ="): SAME,
    ("heads-8", "letter", r"= K = V = [x -> K] \quad\Rig"): SAME,
    ("research-3", "number", r" \frac{1}{[2 -> 3]} \Big\rfl"): "a whole number and a third, cut",
    (f"9: {SPREAD}", "sign", r"um_k (x_k [- -> +] \mu)(\dot"): "the second factors sum to 0",
    (f"9: {SPREAD}", "sign", r"(\dot x_k [- -> +] \dot\mu)"): "the first factors sum to 0",
}


def is_outer(match):
    """Return True if a match is outside of all brackets."""
    before = match.string[:match.start()]
    return sum(map(before.count, "{([")) == sum(map(before.count, "})]"))


def finder(pattern, list_texts, condition=lambda match: True):
    """Return a function of a TeX: yield (start, end, text) for each text of list_texts(match)."""
    def yield_changes(tex):
        for found in filter(condition, re.finditer(pattern, tex)):
            for text in list_texts(found):
                yield *found.span(), text
    return yield_changes


def yield_index_changes(tex):
    """Replace an index by the next, by the previous, and by another index of the equation."""
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


def yield_letter_changes(tex):
    """Replace a letter by the next one in the equation's sorted letters."""
    alone = r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])"
    letters = sorted(set(re.findall(alone, tex)))
    following = dict(zip(letters, letters[1:] + letters[:1], strict=True))
    return finder(alone, lambda found: [following[found[0]]] * (len(letters) > 1))(tex)


OTHER = {r"\le": r"\ge", "<": ">", "log": "exp", "max": "min", "sin": "cos", "tanh": "sigma",
         "sum": "prod"}
OTHER |= {new: old for old, new in OTHER.items()}
BRACES = r"\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"
SCRIPT = r"(_[A-Za-z](?![A-Za-z])|_\{[^{}]*\})?(?![\w'_^(.}])(?! = [01](?![.\d]))"
KINDS = {
    "sign": [finder("[+-]", lambda found: "+-"[found[0] == "+"]),     # and - after a relation =
             finder(r"(?<==)(?!\s*(0\b|\\\w+e\b))", lambda found: [" -"], is_outer)],
    "transpose": [finder(r"\^\\top", lambda found: [""]),    # or inserted, but not in x = 0 or 1
                  finder(LETTER + SCRIPT, lambda found: [found[0] + r"^\top"], is_outer)],
    "index": [yield_index_changes],
    "relation": [finder(r"\\[lg]e(?![a-z])|[<>]", lambda found: [OTHER[found[0]]])],
    "factor": [finder(r"((?<==)|(?<=\\[lg]e)(?![a-z]))(?!\s*(-|0\b))", lambda found: [r" 2\,"],
                       is_outer)],
    "function": [finder(rf"(?<=\\)({'|'.join(filter(str.isalpha, OTHER))})(?![a-z])",
                         lambda found: [OTHER[found[0]]])],
    "fraction": [finder(rf"\\frac{BRACES}{BRACES}",
                         lambda found: [rf"\frac{{{found[2]}}}{{{found[1]}}}"])],
    "product": [finder(r"\\odot", lambda found: [r"\,", "+"])],
    "number": [finder(r"\d+(?!\.|\d)",
                       lambda found: [str(int(found[0]) + 1).zfill(len(found[0]))])],
    "letter": [yield_letter_changes]}
TRIVIAL = re.compile(r"(?<![\w'}])(\S+) (?:=|<|>|\\le) \1(?![\w'_^({])")      # such as t > t


def list_changes(tex):
    """Return a list of (kind, changed part, changed TeX) of an equation.

    A change that makes the two sides of a relation equal is left out.
    """
    found = [(kind, f"{tex[max(0, start - 10): start]}[{tex[start:end]} -> {new}]"
                    f"{tex[end: end + 10]}".replace("\n", " "), tex[:start] + new + tex[end:])
             for kind, changes in KINDS.items() for change in changes
             for start, end, new in dict.fromkeys(change(tex))]
    return [change for change in found if not TRIVIAL.search(change[2])]


def is_noticed(book_chapter, part, formulas, namespace):
    """Return True if the check fails with changed equations, in a process of its own."""
    child = os.fork()
    if child == 0:
        try:
            sys.stderr = open(os.devnull, "w")              # warnings of invalid values
            checks.run_check(book_chapter, part, formulas, namespace)
        except chapter.BookError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def try_changes(book_chapter):
    """Yield ((label, kind, changed part), is noticed) for every change in a chapter.

    The label of a formula of the text is the chapter's number and the formula.
    """
    space = checks.make_namespace(book_chapter.name)
    for part in book_chapter.find_directives("equation", "said"):
        texts = book_chapter.formulas[part.given]
        for name, tex in texts.items():
            label = name if part.name == "equation" else f"{book_chapter.number}: {name}"
            for kind, what, made in list_changes(tex):
                yield (label, kind, what), is_noticed(book_chapter, part, texts | {name: made},
                                                            space)
        checks.run_check(book_chapter, part, texts, space)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="only these chapters")
    options = parser.parse_args(argv)
    found = [row for path in chapter.list_chapters()
             if not options.only or int(path.name[:2]) in options.only
             for row in try_changes(chapter.read_chapter(path))]
    equations = {label for (label, _, _), _ in found}
    reasons = {key: {key, (*key[:2], None)} & TRUE.keys() for key, noticed in found if not noticed}
    lost = [key for key, reason in reasons.items() if not reason]
    stale = {key for key in TRUE if key[0] in equations}.difference(*reasons.values())
    for label, kind, what in lost:
        print(f"{label}: {kind}: {what} passes")
    for label, kind, what in sorted(stale, key=str):
        print(f"{label}: {kind}: {what or 'any'}: a reason, and nothing passes")
    passed = sum(not noticed for _, noticed in found)
    true = sum(bool(reasons[key]) for key, noticed in found if not noticed)
    print(f"{len(found)} changes of {len(equations)} equations, {len(found) - passed} noticed, "
          f"{true} true as well, {passed - true} not noticed")
    return bool(lost or stale)


if __name__ == "__main__":
    sys.exit(main())
