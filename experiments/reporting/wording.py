"""What the answers share: the seeds that every setting has, and how changes are said."""

from experiments.reporting.records import NAMES


class Missing(Exception):
    """A run that an answer needs is not there."""


def seeds_of(view, configs):
    """{seed: {key: Run}} for the seeds that every setting has; Missing without any."""
    runs = {key: view.all_runs(config) for key, config in configs.items()}
    seeds = [seed for seed in next(iter(runs.values()))
             if all(seed in found for found in runs.values())]
    if not seeds:
        raise Missing
    return {seed: {key: found[seed] for key, found in runs.items()} for seed in seeds}


def of_both(view, configs):
    """{model: {seed: {key: Run}}} for {model: {key: Config}}, with the seeds that both models
    have; Missing without any."""
    found = {model: seeds_of(view, these) for model, these in configs.items()}
    seeds = [seed for seed in found["lstm"] if seed in found["gpt"]]
    if not seeds:
        raise Missing
    return {model: {seed: runs[seed] for seed in seeds} for model, runs in found.items()}


def factor(decades):
    """"falls 12 to 30-fold" for changes of log10 of several seeds."""
    if not decades:
        raise Missing
    low, high = min(decades), max(decades)
    if low < 0 < high:
        return (f"goes both ways, from {two_digits(10**-low)} times lower with one seed to "
                f"{two_digits(10**high)} times higher with another")
    ends = dict.fromkeys(map(two_digits, sorted((10 ** abs(low), 10 ** abs(high)))))
    return f"{'falls' if high <= 0 else 'rises'} by a factor of {' to '.join(ends)}"


def two_digits(value):
    """1.9, 89, 510, 110,000."""
    return f"{float(f'{value:.2g}'):,g}"


def per_seed(found):
    """"x with seed 0, y with seed 42"."""
    return ", ".join(f"{words} with seed {seed}" for seed, words in found.items())


def both(seeds):
    """"with both seeds", "with all 5 seeds"."""
    return "with both seeds" if seeds == 2 else f"with all {seeds} seeds"


def gainer(found, one="lstm", other="gpt"):
    """The model whose value is the higher one with every seed, of {model: [one each seed]}, or
    None."""
    pairs = list(zip(found[one], found[other], strict=True))
    return (one if all(a > b for a, b in pairs) else other if all(a < b for a, b in pairs) else
            None)


def said_of(found, words):
    """What words(values) says of each model's."""
    return "; ".join(f"{NAMES[m]} {words(values)}" for m, values in found.items())


def who(found):
    """The model that gains more with every seed."""
    better = gainer(found)
    return (f"the {NAMES[better]} {both(len(found[better]))}" if better else
            "neither with every seed")
