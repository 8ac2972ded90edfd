"""The study's questions: their modules, their runs, and every verdict, in their order."""

from experiments.study import (
    q2_recipe,
    q3_data,
    q4_orders,
    q5_claims,
    q5_size,
    q6_claims,
    q6_compute,
    q7_decay,
    q8_attention,
)
from experiments.study.judge import judge
from experiments.study.records import Store

MODULES = {"1 and 2: the default recipe": q2_recipe, "3: the share of data": q3_data,
           "4: sums of two and of three": q4_orders, "5: layers and width": q5_size,
           "6: batch size and budget": q6_compute, "7: weight decay": q7_decay,
           "8: attention": q8_attention}
# In the order in which the first seeds are run: what decides most, for its cost, comes first.
RUNS = {"sanity": q2_recipe.RUNS, "mixed": q4_orders.RUNS, "data": q3_data.RUNS,
        "model": q5_size.RUNS, "decay": q7_decay.RUNS, "compute": q6_compute.RUNS,
        "further": q2_recipe.MORE}
JUDGED = (q2_recipe, q3_data, q4_orders, q5_claims, q6_claims, q7_decay)


def verdicts(store=None):
    """[Verdict] on each claim of document 004 that its runs can judge, by the kept records.

    Raises InputError for a record that cannot be read.
    """
    store = store or Store()
    return [judge(store, claim) for module in JUDGED for claim in module.claims()] \
        + q8_attention.verdicts()
