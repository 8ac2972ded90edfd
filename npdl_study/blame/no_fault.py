"""What blame says where no gradient is wrong: right, right at these inputs, or not checked."""

import numpy as np

from npdl_study.blame.branch_coverage import FACTORS, choices_of, finite, scaled
from npdl_study.blame.report import Blame
from npdl_study.check.adapters import InSelf, gradient_names
from npdl_study.check.side_effects import side_effects
from npdl_study.check.subjects import bare_arrays
from npdl_study.containment import message
from npdl_study.trace.runs import times
from npdl_study.trees import copied


def unblamed(search):
    """The Blame of a Search that found no gradient wrong; right only if one was checked, every
    array that the layer learns, and the backward in other circumstances too."""
    subject, notes, rows = search.subject, search.notes, search.rows
    if all(row.right is None for row in rows) and not search.check.flat:
        reasons = "; ".join(dict.fromkeys(row.reason for row in rows))
        return _unchecked(search, f"nothing was checked: {reasons}; give other inputs" if rows else
                          "nothing was checked: the layer has no Param, and its inputs have no "
                          "float array")
    bare = learned_without_param([] if isinstance(subject.layer, InSelf) else subject.bare)
    if bare:
        return _unchecked(search, f"{bare} is an array with a gradient of its own, d{bare}, and "
                          "was not checked; what was checked is right. Make it a Param: "
                          f"self.{bare} = Param(...), and self.{bare}.grad += in backward")
    left = left_in_self(subject)
    if left:
        return _unchecked(search, f"backward leaves a gradient in self.{left[1]}, and it is not "
                          f"known as that of {left[0]}: it was not compared; what was is right. "
                          f"Call it self.d{left[0]}, or make {left[0]} a Param")
    if not search.elsewhere:
        return Blame(True, rows, notes)
    try:
        missed = elsewhere(search)
    except Exception as error:                          # code that does not stand being rewritten
        notes.append("which sides its choices take (np.clip, a mask, an if) was not looked at: "
                     f"{message(error)}")
        missed = []
    if isinstance(missed, Blame):
        return missed
    if search.check.flat:
        sides = "".join(f"; line {choice.line}, {choice}" for choice in missed)
        return _unchecked(search, f"every gradient is 0 at these inputs{sides}; give inputs at "
                          "which the outputs change")
    faults = side_effects(search.check)
    if faults:
        return Blame(False, rows, notes, kind="manners", diagnosis="; ".join(faults))
    return Blame(True, rows, notes, unreached=missed)


def learned_without_param(arrays):
    """The name of an array W of a layer whose methods speak of dW too, or ""."""
    for part, name in arrays:
        words = {word for cls in type(part).__mro__ for f in vars(cls).values()
                 if hasattr(f, "__code__") for word in (*f.__code__.co_names,
                                                        *f.__code__.co_varnames)}
        if words.intersection(gradient_names(name)):
            return name
    return ""


def left_in_self(subject):
    """(W, what backward leaves in self that is as W, is called after it, and doubles with the
    upstream gradient), of an array that the layer held and nobody compared; or ()."""
    seen = []
    for factor in (0, 1, 2) if subject.bare else ():
        if factor:
            _, cache = subject.run()
            subject.backward(times(copied(subject.dout), factor), cache)
        seen.append({(id(part), name): np.array(vars(part)[name])
                     for part, name in bare_arrays(subject.layer)})
    for part, name in subject.bare:
        for key in seen[2]:
            zero, one, two = (run.get(key, np.zeros_like(seen[2][key])) for run in seen)
            if key[0] == id(part) and name != key[1] and name.lower() in key[1].lower() and \
                    zero.shape == one.shape == two.shape == vars(part)[name].shape and (
                    np.allclose(two, 2 * one) or np.allclose(two - one, 2 * (one - zero))) and \
                    not np.allclose(one, two):
                return name, key[1]
    return ()


def _unchecked(search, diagnosis):
    return Blame(False, search.rows, search.notes, kind="unchecked", diagnosis=diagnosis)


def elsewhere(search):
    """[what no inputs that were tried reach, in words]; or the Blame where the backward is wrong
    at other inputs, which reach what those of a Search do not."""
    subject = search.subject
    left, unseen = choices_of(subject)
    if unseen:
        search.notes.append(f"no source could be had of {', '.join(unseen)}: which sides its "
                            "choices take was not looked at")
    left = {key: choice for key, choice in left.items() if choice.missed}
    if subject.params:                              # masks may be alike by chance
        try:
            report = type(search)(type(subject)(
                subject.layer, subject.inputs, subject.options, subject.forward,
                subject.seed + 1), elsewhere=False).run()
        except Exception:
            report = None
        if report and any(row.right is False for row in report.finals) and report.error is None:
            report.notes.insert(0, "right with the parameters that were drawn first, wrong with "
                                "others")
            return report
    for factor in FACTORS if left else ():
        try:
            other = type(subject)(subject.layer, scaled(subject.inputs, factor), subject.options,
                                  subject.forward, subject.seed)
            if not finite(other):
                continue
            took, _ = choices_of(other)
            reached = {key: set(choice.missed) & took[key].took
                       for key, choice in left.items() if key in took}
            if not any(reached.values()):
                continue
            report = type(search)(other, elsewhere=False).run()
        except Exception:                               # outside of what the layer takes
            continue
        if any(row.right is False for row in report.finals) and report.error is None:
            choice = next(left[key] for key, sides in reached.items() if sides)
            report.notes.insert(0, f"right at the inputs that were given, where line {choice.line}"
                                f", {choice}; wrong with every float input times {factor:g}")
            return report
        for key, sides in reached.items():
            left[key].took |= sides
        left = {key: choice for key, choice in left.items() if choice.missed}
    return list(left.values())
