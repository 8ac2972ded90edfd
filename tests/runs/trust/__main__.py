"""python -m tests.runs.trust: each promise, the test that asks for it, the figure reached."""

import argparse
import importlib
import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

from npdl.errors import NpdlError

TOPICS = ("kills", "bits", "malformed", "numbers")


def quick_folder():
    """A folder in memory, where fsync costs nothing, or None for the usual place.

    A killed process leaves the same files in both; what a lost power leaves, neither shows.
    """
    memory = "/dev/shm"
    is_good = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 << 30
    return memory if is_good else None


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.runs.trust", description=__doc__)
    parser.add_argument("topics", nargs="*", metavar="TOPIC",
                        help=f"of {', '.join(TOPICS)} (default: all)")
    parser.add_argument("--full", action="store_true", help="the full figures, not samples")
    options = parser.parse_args(arguments)
    unknown = set(options.topics) - set(TOPICS)
    if unknown:
        parser.error(f"topic {unknown.pop()!r} is unknown; choose from {', '.join(TOPICS)}")
    failed, rows = [], []
    for topic in options.topics or TOPICS:
        began, busy = time.monotonic(), sum(os.times()[:4])
        command = f"`python -m tests.runs.trust {topic}{' --full' if options.full else ''}`"
        try:
            with tempfile.TemporaryDirectory(dir=quick_folder()) as folder:
                found = importlib.import_module(f"tests.runs.trust.{topic}").measure(
                    options.full, Path(folder))
        except (AssertionError, NpdlError) as error:
            failed.append(topic)
            print(f"{topic}: {error}", file=sys.stderr)
            continue
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024      # MiB, of all so far
        print(f"{topic}: {time.monotonic() - began:.0f} s, {sum(os.times()[:4]) - busy:.0f} s of a "
              f"processor, {peak} MiB", file=sys.stderr, flush=True)
        rows += [f"| {f.promise} | {f.test} | {f.figure} | {command} |" for f in found]
    print("\n".join(["| promise | test | figure | command |", "|---|---|---|---|", *rows]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
