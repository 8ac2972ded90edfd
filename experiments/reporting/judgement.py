"""What the verdicts of a question come to, in a paragraph."""

from experiments.reporting.parts import CONTRADICTED, DEPENDS, FAILS, HOLDS, OPEN

NAMED = 4                           # claims that are named of each kind


def judgement(verdicts):
    """Where the document is right, wrong or not to be judged, by name; in how many tests the seeds
    agree; and what hangs on the recipe."""
    said = [named(verdicts, HOLDS, "{} borne out by our runs"),
            named(verdicts, FAILS, "{} not borne out"),
            named(verdicts, CONTRADICTED, "{} contradicted by the document itself"),
            named(verdicts, DEPENDS, "{} borne out or not by what is meant"),
            named(verdicts, OPEN, "{} not decided by these seeds")]
    words = f"Of the document's claims: {'; '.join(filter(None, said))}"
    counted = [v for v in verdicts if v.seeds]
    if counted:
        alike = sum(len(set(v.seeds.values())) == 1 for v in counted)
        seeds = sorted({len(v.seeds) for v in counted})
        words += (f". The {' or '.join(map(str, seeds))} seeds agree in {alike} of {len(counted)} "
                  "tests")
    return f"{words}.{by_recipes(verdicts)}"


def named(verdicts, kind, words):
    """The words with the number of claims of a kind, and the first of these by name: those of the
    document's written answers before those of its captions."""
    found = [v for v in verdicts if v.verdict == kind]
    if not found:
        return ""
    shown = sorted(found, key=lambda v: v.where.startswith("Figure"))[:NAMED]
    more = ", …" if len(found) > len(shown) else ""
    return f"{words.format(len(found))} ({', '.join(f'*{v.claim}*' for v in shown)}{more})"


def by_recipes(verdicts):
    """How many of the verdicts are others by the other recipes, as sentences."""
    said = ""
    for recipe in dict.fromkeys(recipe for v in verdicts for recipe in v.recipes):
        pairs = [(v.verdict, v.recipes[recipe]) for v in verdicts
                 if recipe in v.recipes and v.verdict in (HOLDS, FAILS, DEPENDS, OPEN)]
        opposite = sum({a, b} == {HOLDS, FAILS} for a, b in pairs)
        others = sum(a != b for a, b in pairs)
        said += (f" By the {recipe} recipe the verdict is another in {others} of "
                 f"{len(pairs)} cases, the opposite in {opposite}.") if pairs else ""
    return said
