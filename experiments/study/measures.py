"""Small measures and parts that the claims share, and the thresholds of the study."""

import functools
import math
from statistics import median

from experiments.study.records import GRID

# {name: (value, what it decides, why this value)}
THRESHOLDS = {
    "GENERAL": (0.9, "a model generalises from this A_val on", "question 3 (d)"),
    "MEMORISED": (0.99, "a training set is known from this A_train on", "3 (d): about 1.0"),
    "ONLY": (0.5, "a model overfits, and no more, up to this A_val", "question 3 (d)"),
    "ALL": (0.9995, "an accuracy is 100 % from here on", "rounds to 1.000"),
    "STEADY": (0.01, "an accuracy is steady up to this mean shortfall: how far it lies below its "
               "highest so far, at every 100th step; one is no lower than another within it",
               "one equation in a hundred"),
    "SMOOTH": (0.1, "a loss is smooth up to this mean height, in decades, above its lowest so far",
               "a quarter more"),
    "TENTH": (0.1, "fast, quickly: within this share of the steps", "a tenth"),
    "APART": (1.25, "a preference: one order needs so many times the other's steps; steps and "
              "losses stay within it; tolerance of a printed step", "a quarter"),
    "NEAR": (0.05, "tolerance of a printed accuracy", "one equation in twenty"),
    "TWICE": (2.0, "steps hardly change within this factor; tolerance of a printed loss",
              "a doubling"),
    "SHARPLY": (1.5, "a loss is significantly higher from this factor on", "half as much again"),
    "SMALL": (90, "small batches are below", "the lower two of five, 32 and 64"),
    "LARGE": (0.75, "a large α is above", "the upper three of ten"),
    "LOW": ((0.1, 0.2, 0.3), "low budgets: each of these α is asked by itself",
            "the lower three of ten; at 0.1 alone no LSTM has begun to generalise"),
    "SETTLED": (0.1, "a norm is stable within this share of its mean", "a tenth"),
    "MOST": (0.5, "a head gives BOS most attention at more than this share of the queries",
             "three of five"),
}
(GENERAL, MEMORISED, ONLY, ALL, STEADY, SMOOTH, TENTH, APART, NEAR, TWICE, SHARPLY, SMALL,
 LARGE, LOW, SETTLED, MOST) = (value for value, _, _ in THRESHOLDS.values())
L_TRAIN, A_TRAIN = "train_loss", "train_accuracy"
L_VAL, A_VAL = "validation_loss", "validation_accuracy"


@functools.cache
def student(free, outside):
    """The point that Student's distribution of so many degrees of freedom exceeds with a
    probability, `outside`: by bisection of its finite series (Abramowitz and Stegun 26.7.3, 4)."""
    def inside(t):                          # the probability of -t to t
        cosine = 1 / math.sqrt(1 + t * t / free)
        term = total = cosine if free % 2 else 1.0
        for k in range(2 + free % 2, free - 1, 2):
            term *= cosine**2 * (k - 1) / k
            total += term
        if free % 2:
            rest = t / math.sqrt(free) * cosine * total if free > 1 else 0.0
            return 2 / math.pi * (math.atan(t / math.sqrt(free)) + rest)
        return t / math.sqrt(free) * cosine * total

    low, high = 0.0, 1.0
    while inside(high) < 1 - 2 * outside:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) < 1 - 2 * outside else (low, middle)
    return (low + high) / 2


def ranks(values):
    """Ranks from 1, equal values sharing their mean rank."""
    places = sorted(values)
    return [places.index(value) + (places.count(value) + 1) / 2 for value in values]


def correlation(xs, ys):
    """Spearman's rank correlation; 0 where one of the two does not vary."""
    a, b = ranks(xs), ranks(ys)
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    covariance = sum((p - mean_a) * (q - mean_b) for p, q in zip(a, b, strict=True))
    spread = math.sqrt(sum((p - mean_a) ** 2 for p in a) * sum((q - mean_b) ** 2 for q in b))
    return covariance / spread if spread else 0.0


def slope(xs, ys):
    """Of the least-squares line."""
    mean_x, mean_y = mean(xs), mean(ys)
    return (sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
            / sum((x - mean_x) ** 2 for x in xs))


def mean(values):
    values = list(values)
    return math.fsum(values) / len(values)


def deviation(values):
    """Population standard deviation."""
    values = list(values)
    middle = mean(values)
    return math.sqrt(mean((v - middle) ** 2 for v in values))


def generalised(runs):
    """The steps at which runs {setting: Run} have reached A_val = GENERAL."""
    return [run.reach(A_VAL, GENERAL) for run in runs.values()]


# --- parts: above zero where a claim holds; a pair is (low, high) ---------------------------------
def when(step, last):
    """log10 of a step that was found on the grid of evaluations, as (low, high): it is after the
    evaluation before. One that is never reached counts as the last."""
    if step > last:
        return (math.log10(last),) * 2
    return math.log10(max(step - (1 if step <= GRID else GRID), 0.5)), math.log10(step)


def sooner(a, b):
    """The part: `a` is before `b`, both as `when` gives them."""
    return b[0] - a[1], b[1] - a[0]


def lower(a, b):
    """The part: a loss, norm or another positive number `a` is below `b`, in decades."""
    return math.log10(b / a)


def within(part, limit):
    """The two parts: a number, or one between two, is within `limit` of zero."""
    low, high = part if isinstance(part, tuple) else (part, part)
    return [(limit - high, limit - low), (limit + low, limit + high)]


def each_step(values, part):
    """part(b, a) of every value b and the one before, a."""
    return [part(b, a) for a, b in zip(values, values[1:], strict=False)]


def higher(a, b):
    """The part: an accuracy or a mean of logarithms `a` is above `b`."""
    return a - b


def counted(difference):
    """The part of a difference of counts or places: one of them may be otherwise."""
    return difference - 1, difference + 1


def only_overfits(run):
    """The parts of the document's definition, question 3 (d): the training set is known, the rest
    is not."""
    return [run.best(A_TRAIN) - MEMORISED, ONLY - run.best(A_VAL)]


def digits(value, form="{:.2g}"):
    """A number for a table; infinity is "never"."""
    return "never" if isinstance(value, float) and math.isinf(value) else form.format(value)


def brief(value):
    """A step or another large number in full, a small one to three digits."""
    return digits(value, "{:.0f}" if abs(value) >= 100 else "{:.3g}")


def middle(values, form="{:.2g}"):
    """"median (least to most)", or the one value where all are alike."""
    values = list(values)
    around = span(values, form)
    return f"{digits(median(values), form)} ({around})" if " to " in around else around


def span(values, form="{:.2g}"):
    """"a to b", or "a" where both are alike."""
    values = list(values)
    return " to ".join(dict.fromkeys(digits(v, form) for v in (min(values), max(values))))
