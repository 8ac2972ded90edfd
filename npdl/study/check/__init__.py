"""Decide whether a backward is right. A call passes through the modules in this order:

    adapters      code that is not written as npdl's layers are, made a Layer: a cache in self, two
                  functions; learned: the parameters of an object, and where their gradients are
    subjects      a Subject: a layer with inputs, which runs forward and backward repeatably
    differences   finite differences with an estimate of their uncertainty
    verdicts      a Check compares all gradients; a Verdict has a Row for each: right (True, False,
                  or None for inconclusive), relative error, reason
    questions     arrays whose role is unknown: the student is asked
    side_effects  other errors: written arguments, a second run
    gradcheck     all of these in one call, and its report
    examples      the specification of every layer of npdl: inputs and options; samples builds them
    target        the layer and inputs that a command line names
"""
