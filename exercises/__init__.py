"""The course's questions, answered by computing: `python -m exercises` prints the ledger.

d000 .. d004     one module a question: statement, computation, worked solution, claims
framework        what such a module defines, its claims and their verdicts
worked, probes   how a worked solution is written down; what can be asked of any function
questions        a question is found by its number, and shown
ledger           all claims, judged: docs/generated/ledger.md
"""
