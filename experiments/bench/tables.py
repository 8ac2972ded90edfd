"""The tables of the modes `explain` and `training`, in Markdown."""

import statistics


def ladder_table(case, results):
    """npdl's own variants, each against the first and against the one before."""
    lines = [f"### {case.label()}: npdl, one change after another", "",
             "| variant | work | ms | factor to the first | to the one before | peak MB |",
             "|---|---|--:|--:|--:|--:|"]
    done = [result for result in results if result.ms]
    for result, before in zip(done, done[:1] + done, strict=False):
        lines.append(f"| {result.variant.name} | {result.variant.work} | {result.median:.2f} "
                     f"| {done[0].median / result.median:.2f} "
                     f"| {before.median / result.median:.2f} | {result.peak_mb:.0f} |")
    return "\n".join(lines)


def profile_table(case, work, profile):
    """The time of one step by kind of layer; `profile` as profile_step returns it."""
    total = profile["total_ms"]
    lines = [f"### {case.label()}: one step of npdl ({work}), one thread, "
             f"{total:.1f} ms", "",
             "| part | direction | calls | ms | share |", "|---|---|--:|--:|--:|"]
    for row in profile["rows"]:
        lines.append(f"| {row['part']} | {row['direction']} | {row['calls']:.0f} "
                     f"| {row['ms']:.2f} | {100 * row['ms'] / total:.1f} % |")
    rest = total - sum(row["ms"] for row in profile["rows"])
    lines.append(f"| everything else | | | {rest:.2f} | {100 * rest / total:.1f} % |")
    return "\n".join(lines)


def training_table(rows):
    """Whole trainings; the ratio is to the first row of the same model."""
    lines = ["### Whole trainings, from start to exit: evaluation, metrics, checkpoint, curves", "",
             "| model | by | steps | seconds | ratio | peak MB |", "|---|---|--:|--:|--:|--:|"]
    first = {}
    for row in rows:
        seconds = statistics.median(row["seconds"])
        reference = first.setdefault(row["model"], seconds)
        lines.append(f"| {row['model']} | {row['name']} | {row['steps']} | {seconds:.1f} "
                     f"| {seconds / reference:.2f} | {row['peak_mb']:.0f} |")
    return "\n".join(lines)
