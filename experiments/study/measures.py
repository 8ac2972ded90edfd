"""Small measures that the claims share, and the thresholds of the study, one value each."""

import math

# {name: (value, what it decides, why this value)}
THRESHOLDS = {
    "GENERAL": (0.9, "a model generalises from this A_val on", "question 3 (d)"),
    "MEMORISED": (0.99, "a training set is known from this A_train on", "3 (d): about 1.0"),
    "ONLY": (0.5, "a model overfits, and no more, up to this A_val", "question 3 (d)"),
    "ALL": (0.9995, "an accuracy is 100 % from here on", "rounds to 1.000"),
    "TREND": (0.5, "a trend is a rank correlation of this size",
              "chance gives it in 18 of 100 cases among nine settings, in 45 among five"),
    "STEADY": (0.01, "an accuracy is steady up to this mean shortfall: how far it lies below its "
               "highest so far, at every 100th step",
               "one equation in a hundred"),
    "SMOOTH": (0.1, "a loss is smooth up to this mean height, in decades, above its lowest so far",
               "a quarter more"),
    "TENTH": (0.1, "fast, quickly: within this share of the steps", "a tenth"),
    "APART": (1.25, "a preference: one order needs so many times the other's steps", "a quarter"),
    "NEAR": (0.05, "accuracies that near are alike", "one equation in twenty"),
    "TWICE": (2.0, "steps hardly change within this factor", "a doubling"),
    "SHARPLY": (1.5, "a loss is significantly higher from this factor on", "half as much again"),
    "SMALL": (64, "small batches: up to this one", "the lower two of five"),
    "LARGE": (0.8, "a large α: from this one on", "the upper three of ten"),
    "LOW": ((0.1, 0.2, 0.3), "low budgets: each of these α is asked by itself",
            "the lower three of ten; at 0.1 alone no LSTM has begun to generalise"),
    "SETTLED": (0.1, "a norm is stable within this share of its mean", "a tenth"),
    "MOST": (0.6, "a head gives BOS most attention at this share of the queries", "three of five"),
}
(GENERAL, MEMORISED, ONLY, ALL, TREND, STEADY, SMOOTH, TENTH, APART, NEAR, TWICE, SHARPLY, SMALL,
 LARGE, LOW, SETTLED, MOST) = (value for value, _, _ in THRESHOLDS.values())
L_TRAIN, A_TRAIN = "train_loss", "train_accuracy"
L_VAL, A_VAL = "validation_loss", "validation_accuracy"
# two-sided 5 % points of Student's distribution for 1, 2, ... degrees of freedom
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


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


def only_overfits(run):
    """The document's definition, question 3 (d): the training set is known, the rest is not."""
    return run.best(A_TRAIN) >= MEMORISED and run.best(A_VAL) <= ONLY


def generalised(runs):
    """The steps at which runs {setting: Run} have reached A_val = GENERAL."""
    return [run.reach(A_VAL, GENERAL) for run in runs.values()]


def falls(values):
    """Every value is below the one before."""
    return all(b < a for a, b in zip(values, values[1:], strict=False))


def rises(values):
    return all(b > a for a, b in zip(values, values[1:], strict=False))


def digits(value, form="{:.2g}"):
    """A number for a table; infinity is "never"."""
    return "never" if isinstance(value, float) and math.isinf(value) else form.format(value)


def brief(value):
    """A step or another large number in full, a small one to three digits."""
    return digits(value, "{:.0f}" if abs(value) >= 100 else "{:.3g}")


def span(values, form="{:.2g}"):
    """"a to b", or "a" where both are alike."""
    values = list(values)
    return " to ".join(dict.fromkeys(digits(v, form) for v in (min(values), max(values))))
