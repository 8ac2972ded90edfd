"""Find the incorrect line of a backward pass. A call passes through these modules in this order:

    blame        blame(layer, x) -> Blame: check, localise, repair, report
    inputs       smaller inputs for the search, and other inputs to validate a fix on
    localize     the statements that could be the mistake, by a linear system, most suspicious first
    vocabulary, edits   the single edits of a statement, and the operands that these may use
    repair       runs edits until one makes all gradients correct
    exceptions, no_fault    the answers if code raises, and if no gradient is wrong
    report       a Blame as text and as HTML
"""
