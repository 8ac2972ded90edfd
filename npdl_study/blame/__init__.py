"""Find the incorrect line of a backward pass. A call passes through these modules in this order:

    blame        blame(layer, x) -> Blame: check, localise, repair, report
    inputs       smaller inputs for the search, and other inputs to validate a fix on
    localize     the statements that could be the mistake, by a linear system, most suspicious first
    vocabulary   the names, numbers and derivatives that an edit may use in a statement
    edits        the single edits of a statement, from one token to one more term
    repair       runs edits until one makes all gradients correct
    exceptions   a backward or a forward that raises
    no_fault     the answer if no gradient is wrong: correct, not checked, or wrong elsewhere
    report       a Blame as text and as HTML
"""
