"""npdl: layers for sequence models in NumPy, every forward and backward written out."""

__version__ = "0.2.0"
