"""The fast wing: a training step of the textbook's models, arranged for speed.

It owns no parameter and no option. `FastEngine.step(batch)` adds the same gradients into the
model's Params as the textbook does (tests/fast/test_fast.py holds it to 1e-12); how it gets there -
equal beginnings once, positions that count, threads, memory that is kept and written over - is
its own business. Only npdl_train.runs and the benchmarks import it.
"""
