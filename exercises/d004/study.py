"""Document 004, Problem 4: the questions that npdl's study answers by training.

The runs, their figures and a verdict on each statement of the document are in experiments/REPORT.md
under the number of the question. Two statements about settings can be judged without a run.
"""

from exercises.course import judge, question

DECAYS, WIDTHS, BATCH = (0.25, 0.5, 0.75, 1.0), (64, 128, 256), 512     # as Problem 4 asks


def studied(number, title, asked, claim=lambda work: None):
    """Add a question whose answer is in the report; `claim` adds what can be judged here."""
    def work(work):
        work.answer("npdl trained the models of this question, and the report of the study says "
                    "what came out and which statements of the document were reproduced: "
                    f"experiments/REPORT.md, question {number}.")
        claim(work)

    work.__doc__ = asked
    question(f"004.4.{number}", title)(work)


studied(1, "The default recipe: losses and accuracies step by step, drawn",
        "Plot losses and accuracies of an LSTM and a GPT during training with the default recipe.")
studied(3, "Scaling the data: the share that is trained on",
        "Vary the share of the equations that is trained on.")
studied(4, "Sums of two and of three operands together",
        "Train on sums of two and of three operands together.")
studied(5, "Scaling the model: layers and width", "Vary the number of layers and the width d.",
        lambda work: work.claim(
            "(a)", "each curve is of a batch size d", "batch size d in {64, 128, 256}",
            f"d is the width: {', '.join(map(str, WIDTHS))}; B is {BATCH} throughout",
            judge(BATCH in WIDTHS, if_false="slip"),
            "the settings of the question; captions of Figures 14, 17, 19 and 21 have it too"))
studied(6, "Scaling compute: batch size and budget", "Vary the batch size and the number of steps.")
studied(7, "Weight decay, and the norm of the parameters",
        "Vary the weight decay, and follow the norm of the parameters.",
        lambda work: work.claim(
            "(c)", "a decay of 0.7 was run", "up to 0.7; peaks at 0.7",
            f"the question has {', '.join(f'{decay:g}' for decay in DECAYS)}",
            judge(0.7 in DECAYS, if_false="slip"), "the settings of the question; 0.75 is meant"))
studied(8, "Attention maps of a model that generalised",
        "Draw the attention maps of a trained GPT, and describe them.")
