"""The parts of experiments/bench.py: cases, the steps of npdl and PyTorch, and worker processes."""
