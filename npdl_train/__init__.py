"""What runs npdl: the fast engine, trainings and their folders, real models, the commands."""
