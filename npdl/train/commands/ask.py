"""Ask a trained model: the most probable answers to an equation, with their probabilities.

  python -m npdl ask runs/gpt-p31-plus-seed0 "5 + 7 ="
  python -m npdl ask runs/gpt-p31-plus-seed0           two equations that it has not seen

The output also says whether the model was trained on the equation, and which answer is right.
"""

import re

import numpy as np

from npdl.cli.console import checked_path_text, parse_positive, set_description
from npdl.decoding.language_models import Recomputed
from npdl.errors import InputError
from npdl.train.run import load_run

UNSEEN = 2          # equations that are shown if no question is given


def check_trained_on_equations(run):
    """Raise InputError unless the run was trained on equations."""
    if run.config.text is not None or run.config.translates:
        data = "dates" if run.config.translates else "text"
        raise InputError(f"this run was trained on {data} and not on equations; to continue a "
                         "prompt, use python -m npdl generate")


def encode_question(run, question):
    """Return the ids of BOS (the first token) and of a question such as "5 + 7 =" or "5+7=".

    Raises InputError for a question that is not an equation of the run's vocabulary.
    """
    check_trained_on_equations(run)
    vocabulary, operator = run.task.vocabulary, run.config.operator
    words = re.findall(r"\d+|\w+|[^\w\s]", question)
    ids = vocabulary.encode(["BOS", *words])
    numbers, operators = ids[1:-1:2], ids[2:-1:2]
    if (ids[-1] != vocabulary.eq or len(ids) % 2 == 0 or len(numbers) < 2
            or (numbers >= vocabulary.operator).any() or (operators != vocabulary.operator).any()):
        raise InputError(f"question {question!r} must be an equation up to its '=', as in "
                         f"'5 {operator} 7 ='")
    return ids


def find_answer_and_remark(run, question_ids):
    """Return the id of the right answer, and whether the run has seen the question, as text.

    The id is None if the equation is not in the run's data.
    """
    data, n = run.task.data, len(question_ids)
    for examples, remark in ((data.train, "it was trained on this equation"),
                             (data.validation, "it has not seen this equation")):
        rows = np.flatnonzero((examples.inputs[:, :n] == question_ids).all(1)) if (
            n <= examples.inputs.shape[1]) else ()
        if len(rows):
            return examples.targets[rows[0], n - 1], remark
    return None, "it is not an equation of this run's data"


def list_unseen_questions(run):
    """Return the texts of the first equations of the validation set, up to their '='."""
    check_trained_on_equations(run)
    rows = run.task.data.validation.inputs[:UNSEEN]
    if not len(rows):
        raise InputError('this run was trained on all equations; ask a question, such as "5 + 7 ="')
    return [run.task.vocabulary.decode(row[1:]).partition("=")[0] + "=" for row in rows]


def print_answers(run, question, top):
    """Print the `top` most probable answers to a question, and the right one.

    Raises InputError if the question is invalid (encode_question), or the answers' probabilities
    are not finite.
    """
    ids, tokens = encode_question(run, question), run.task.vocabulary.tokens
    right, remark = find_answer_and_remark(run, ids)
    log_p, _ = Recomputed(run.model, ids).start()
    p = np.exp(log_p[0])
    if not np.isfinite(p).all():
        raise InputError("the answers' probabilities are not finite: the model's parameters are "
                         "too large; ask a run that has not diverged")
    print(f"{run.task.vocabulary.decode(ids[1:])}    ({run.config.model}, step {run.step}; "
          f"{remark})")
    shown = np.argsort(-p, kind="stable")[:top]
    for i in shown:
        print(f"{tokens[i]:>6}  {p[i]:8.4%}{'   right' if i == right else ''}")
    if right is not None and right not in shown:
        print(f"the right answer, {tokens[right]}, has probability {p[right]:.4%}")


def add_arguments(parser):
    """Add the options of `ask` to an argparse parser."""
    set_description(parser, __doc__)
    parser.add_argument("run", type=checked_path_text, help="a run folder")
    parser.add_argument("question", nargs="?", default=None, help="an equation up to its '='")
    parser.add_argument("--top", type=parse_positive, default=5, metavar="N",
                        help="answers to show (default: %(default)s)")


def run(options):
    """Print the answers to the question in the options, and return the exit status."""
    loaded = load_run(options.run)
    asked = list_unseen_questions(loaded) if options.question is None else [options.question]
    for question in asked:
        print_answers(loaded, question, options.top)
    return 0
