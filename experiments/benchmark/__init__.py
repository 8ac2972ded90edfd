"""The parts of experiments/bench.py: cases, both sides' steps, and the processes that run them."""
