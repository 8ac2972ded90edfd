"""The one place that decides whether a backward is right. A call passes in this order:

    adapters      what can be checked (a Layer, a cache in self, two functions, a context) made into
                  a Layer; learned: what an object that is none learns, and where its gradients are;
                  arguments: which of a function's are a cache, or a learning rate
    subjects      a Layer with inputs made into a Subject: run(), backward(), arrays, upstream()
    differences   a numerical derivative, how far it can be trusted, and why not where it can't
    verdicts      check(subject): a Verdict with a Row for each gradient: right (True, False, or
                  None: not checkable here), error, reason; Check judges many backwards on one
                  set of derivatives
    questions     what may be a gradient, or may need one, and has no place: asked, not judged
    side_effects  what a backward does beside: writes, a second run, strides, float32
    explain       in what way, and where, a wrong gradient is wrong
    gradcheck     all of these in one call, and its report
    examples      a row for every layer of npdl, values for every option; samples: built from them
    target        from what is typed to a layer
"""
