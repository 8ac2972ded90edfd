"""Three live questions on grokking, each asked by a paired, seeded design with npdl's own code."""
