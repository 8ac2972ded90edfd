"""What blame says where no gradient is wrong: right, right at these inputs, or not checked."""

import numpy as np

from npdl_study.check.check import Check
from npdl_study.check.diagnose import Blame
from npdl_study.check.guard import message
from npdl_study.check.side_effects import HANDED, side_effects
from npdl_study.check.sides import FACTORS, choices_of, finite, one_sided, scaled
from npdl_study.trace.handed import learned_without_param


def unblamed(search):
    """The Blame of a Search that found no gradient wrong; right only if one was checked, every
    array that the layer learns, and the backward in other circumstances too."""
    check, notes = search.check, search.notes
    if all(final.kink for final in search.found):
        return _unchecked(search, "nothing was checked: the layer has no Param, and " + (
            "its inputs have no float array" if not search.found else
            "all its inputs are at a kink; give others"))
    bare = learned_without_param(check.bare)
    if bare:
        return _unchecked(search, f"{bare} is an array with a gradient of its own, d{bare}, and "
                          "was not checked; what was checked is right. Make it a Param: "
                          f"self.{bare} = Param(...), and self.{bare}.grad += in backward")
    if not search.elsewhere:
        return Blame(True, search.found, notes)
    try:
        missed = elsewhere(search)
    except Exception as error:                          # code that does not stand being rewritten
        notes.append("which sides its choices take (np.clip, a mask, an if) was not looked at: "
                     f"{message(error)}")
        missed = []
    if isinstance(missed, Blame):
        return missed
    if not any(np.any(final.value) for final in check.finals(check.dout)):
        sides = "".join(f"; line {choice.line}, {choice}" for choice in missed)
        return _unchecked(search, f"every gradient is 0 at these inputs{sides}; give inputs at "
                          "which the outputs change")
    faults = [fault for fault in side_effects(check.numbers) if HANDED not in fault]
    if faults:
        return Blame(False, search.found, notes, kind="manners", diagnosis="; ".join(faults))
    return Blame(True, search.found, notes, unreached=missed)


def _unchecked(search, diagnosis):
    return Blame(False, search.found, search.notes, kind="unchecked", diagnosis=diagnosis)


def elsewhere(search):
    """[what no inputs that were tried reach, in words]; or the Blame where the backward is wrong
    at other inputs, which reach what those of a Search do not."""
    check = search.check
    left = one_sided(check)
    for factor in FACTORS if left else ():
        inputs = scaled(check.inputs, factor)
        try:
            other = Check(check.layer, inputs, check.options, check.forward, check.seed)
            if other.refusal or not finite(other):
                continue
            took = choices_of(other)
            reached = {key: set(choice.missed) & took[key].took
                       for key, choice in left.items() if key in took}
            if not any(reached.values()):
                continue
            report = type(search)(other, elsewhere=False).run()
        except Exception:                               # outside of what the layer takes
            continue
        if any(not f.right and not f.kink for f in report.finals) and report.error is None \
                and other.steady(report.finals):
            choice = next(left[key] for key, sides in reached.items() if sides)
            report.notes.insert(0, f"right at the inputs that were given, where line {choice.line}"
                                f", {choice}; wrong with every float input times {factor:g}")
            return report
        for key, sides in reached.items():
            left[key].took |= sides
        left = {key: choice for key, choice in left.items() if choice.missed}
    return list(left.values())
