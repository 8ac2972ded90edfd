"""Small measures that the tests of statements share, and how they are said."""

import math

GENERAL = 0.9               # A_val of a model that generalises, as question 3 (d) has it
MEMORISED = 0.99            # A_train of about 1
ONLY = 0.5                  # A_val up to which a model only overfits
TREND = 0.5                 # a rank correlation from which something rises
STEADY = 0.01               # an accuracy is steady when its mean shortfall is at most that


def relaxed(limit, times):
    """An accuracy's threshold with what it leaves to 1 multiplied: 0.9 and twice is 0.8."""
    return 1 - (1 - limit) * times


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
    values = list(values)
    middle = mean(values)
    return math.sqrt(mean((v - middle) ** 2 for v in values))


def falls(values):
    """Every value is below the one before."""
    return all(b < a for a, b in zip(values, values[1:], strict=False))


def rises(values):
    return all(b > a for a, b in zip(values, values[1:], strict=False))


def listed(values, form="{:.2g}"):
    """"0.1, 0.02, never": numbers in their order."""
    return ", ".join("never" if isinstance(v, float) and math.isinf(v) else form.format(v)
                     for v in values)


def losses(values):
    return listed(values, "{:.2g}")


def accuracies(values):
    return listed(values, "{:.3f}")


def steps(values):
    return listed(values, "{:.0f}")


def moved(change, form):
    """"rises by 0.0111" or "falls by 0.0111"."""
    return f"{'falls' if change < 0 else 'rises'} by {abs(change):{form}}"


def span(values, form="{:.3g}"):
    """"a to b", "a", or "-"; infinity is "never"."""
    values = list(values)
    words = [form.format(v) if math.isfinite(v) else "never" for v in
             (min(values), max(values))] if values else ["-"]
    return " to ".join(dict.fromkeys(words))
