"""A font for formulas that travels with the site: without one, many browsers set indices badly.

It is STIX Two Math (SIL Open Font License), from the package ziamath, cut down to what is used.
"""

from pathlib import Path

RANGES = ((0x20, 0x7E), (0xA0, 0xF7), (0x2C6, 0x2DC), (0x300, 0x338), (0x391, 0x3F5),
          (0x2010, 0x2064), (0x210B, 0x2135), (0x2190, 0x21D4), (0x2200, 0x22C6),
          (0x2308, 0x230B), (0x23B4, 0x23DF), (0x27E8, 0x27E9), (0x1D400, 0x1D467),
          (0x1D49C, 0x1D4CF))


def write(path):
    """Write the font for the web, WOFF, to a path."""
    import ziamath
    from fontTools import subset

    source = Path(ziamath.__file__).parent / "fonts" / "STIXTwoMath-Regular.ttf"
    options = subset.Options(flavor="woff", name_IDs=["*"], layout_features=["*"])
    font = subset.load_font(str(source), options)
    cut = subset.Subsetter(options)
    cut.populate(unicodes=[code for first, last in RANGES for code in range(first, last + 1)])
    cut.subset(font)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    subset.save_font(font, str(path), options)
