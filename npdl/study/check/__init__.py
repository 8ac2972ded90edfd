"""Decide whether a backward is right. A call passes through the modules in this order:

    adapters      converts objects and pairs of functions into a Layer
    learned       finds the parameters of an object, and their gradients
    subjects      runs forward and backward of a copy of a layer, with the same result in each run
    differences   computes finite differences and estimates their uncertainty
    verdicts      compares all gradients and returns a Verdict with a Row for each gradient
    questions     asks the student about arrays whose role is not known
    side_effects  finds other errors, such as a backward that modifies its arguments
    gradcheck     calls all of these modules and returns the Verdict
    examples      specifies the inputs and the options of every layer of npdl
    samples       builds the layers and inputs that `examples` specifies
    target        finds the layer and the inputs that a command line names
"""
