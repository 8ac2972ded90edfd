"""Every verdict of the study, in the order of the questions."""

from experiments.study import (
    q2_recipe,
    q3_data,
    q4_orders,
    q5_claims,
    q6_claims,
    q7_decay,
    q8_attention,
)
from experiments.study.judge import judge
from experiments.study.records import Store

JUDGED = (q2_recipe, q3_data, q4_orders, q5_claims, q6_claims, q7_decay)


def verdicts(store=None):
    """[Verdict] on each claim of document 004 that its runs can judge, by the kept records.

    Raises InputError for a record that cannot be read.
    """
    store = store or Store()
    return [judge(store, claim) for module in JUDGED for claim in module.claims()] \
        + q8_attention.verdicts()
