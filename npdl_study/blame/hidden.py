"""The first of two mistakes, which hides the other from the gradients, not from the values: a
statement computes the gradient of nothing, and with a change that of something in forward; then
one change more makes every gradient right.
"""

import itertools

import numpy as np

from npdl_study.blame import remedies
from npdl_study.blame.edits import edits
from npdl_study.blame.locate import aim, locate
from npdl_study.blame.suspects import NOTHING
from npdl_study.blame.trial import applied, first_right, trial, value_test
from npdl_study.blame.weights import GLANCE, GUESSES, STAGES, WORK
from npdl_study.trace.runs import Budget, Runs


def prove_first(checked, runs, found, tried):
    """The Proof of the first of two mistakes of a Located, or None."""
    proofs = (proof for suspect in sorted(found.suspects, key=lambda s: s.order)
              if suspect.level <= NOTHING and not suspect.argument
              for proof in prove_named(tried, suspect, found))
    return next((proof for proof in itertools.islice(proofs, GUESSES)
                 if is_one_of_two(checked, runs, proof)), None)


def prove_named(tried, suspect, found):
    """The Proofs by edits after which a Suspect's first value, that was the gradient of nothing, is
    that of something in forward, which no other statement computes; a few."""
    line, oracle, scope = suspect.line, found.oracle, tried.scope(suspect.line)
    held = [v for s in found.suspects for v in s.values.values()]

    def given(value):
        if not (oracle.is_known(value) and value.any()) or any(
                v.shape == value.shape and np.allclose(v, value) for v in held):
            return False
        held.append(value)
        return True
    gives = value_test(tried, line, suspect, given)
    changes = ((edit, "") for edit in edits(line.node, scope, True, STAGES[2]) if edit.value)
    while gives:
        proof = first_right(tried, line, None, changes, gives, lambda _: True)
        if proof is None:
            return
        yield proof


def is_one_of_two(checked, runs, proof):
    """Whether with the change of a Proof another change of a likely line makes every gradient of
    Runs right, at a glance."""
    runs.watch.__exit__()                               # what is changed has a Watch of its own
    try:
        with applied(proof):
            rest = Runs(checked.subject, checked.dout, budget=Budget(GLANCE * WORK, 1))
            rest.truth = runs.truth
            with rest.watch:
                known = locate(rest, rest.gradients())
                found = aim(known, known.wrong)
                return not known.wrong or bool(remedies.prove_likely(found, trial(found, list)))
    except Exception:
        return False
    finally:
        runs.watch.__enter__()
