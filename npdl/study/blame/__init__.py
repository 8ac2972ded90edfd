"""Find the incorrect line of a backward pass. A call passes through these modules in this order:

    blame        blame(layer, x) checks a layer and returns a Blame; it calls all other modules
    inputs       makes smaller inputs for the search, and other inputs to check a layer or a fix
    localize     ranks the statements that could be the mistake, by solving linear systems
    vocabulary   collects the expressions that an edit may use
    edits        makes the single edits of a statement
    repair       runs edits until one makes all gradients correct
    exceptions   returns the Blame if the code raises an exception
    report       prints a Blame as text and as HTML
"""
