"""The font of formulas, made from STIX Two Math: run by hand when a formula needs a further character.

npm pack @fontsource/stix-two-math@5.3.0 && tar xzf fontsource-stix-two-math-5.3.0.tgz
pip install fonttools brotli
python notebooks/report/font/subset.py package/files/stix-two-math-latin-400-normal.woff2
"""

import sys
from pathlib import Path

from fontTools.subset import Options, Subsetter, parse_unicodes
from fontTools.ttLib import TTFont

FONT = Path(__file__).with_name("stix-two-math.woff")  # fontTools reads WOFF2 only with brotli
RADICAL = 0x221A
CHARACTERS = """
    20-7E A0 A8 AF B0 B1 B4 B7 D7 F7 131 2C6 2C7 2D8 2D9 2DA 2DC 237 302 303 304 307 308 338 391-3A9
    3B1-3C9 3D1 3D5 3D6 3F1 3F5 2013-2016 2018 2019 201C 201D 2020 2022 2026 2032-2034 203E 2044
    2061-2064 210B 2110 2112 211B 2102 210D 2115 2119 211A 211D 2124 210E 210F 2111 2113 2118 211C
    212C 2130 2131 2133 2135 2190-2194 21A6 21D0-21D4 2200 2202 2203 2205 2207-2209 220B 220F
    2211-2213 2216-2218 221A 221D 221E 2220 2223 2225 2227-222C 222E 223C 2243 2245 2248 2260 2261
    2264 2265 226A 226B 227A 227B 227C 227D 2282-2287 2295 2297 2299 22A4 22A5 22C5 22C6 22EE-22F1
    2308-230B 23DE 23DF 25A1 25CB 27C2 27E8 27E9 27F5-27FA 2A7D 2A7E 1D400-1D433 1D434-1D467
    1D49C-1D4B5 1D538-1D551 1D6A4 1D6A5 1D6A8-1D755 1D7CE-1D7E1 1D5B3
"""


def subset(source: str) -> TTFont:
    """Those characters, their taller forms, and the table from which browsers set formulas."""
    font = TTFont(source)
    options = Options(hinting=False, layout_features=[], name_IDs=[0, 1, 2, 4, 5, 6, 13, 14])
    options.drop_tables += ["GPOS", "GDEF", "GSUB", "gasp"]
    subsetter = Subsetter(options)
    subsetter.populate(unicodes=parse_unicodes(CHARACTERS))
    subsetter.subset(font)
    _narrow_tall_radicals(font)
    return font


def _narrow_tall_radicals(font: TTFont) -> None:
    """Every root sign as wide as the shortest: Chromium leaves room for the widest behind each root."""
    short = font.getBestCmap()[RADICAL]
    width = font["hmtx"][short][0]
    variants = font["MATH"].table.MathVariants
    signs = variants.VertGlyphConstruction[variants.VertGlyphCoverage.glyphs.index(short)]
    tall = {record.VariantGlyph for record in signs.MathGlyphVariantRecord}
    tall |= {part.glyph for part in signs.GlyphAssembly.PartRecords}
    for name in tall - {short}:
        glyph, (advance, bearing) = font["glyf"][name], font["hmtx"][name]
        glyph.coordinates.scale((width / advance, 1))
        glyph.coordinates.toInt()
        glyph.recalcBounds(font["glyf"])
        font["hmtx"][name] = (width, round(bearing * width / advance))


if __name__ == "__main__":
    made = subset(sys.argv[1])
    made.flavor = "woff"
    made.save(FONT)
    print(f"{FONT}: {FONT.stat().st_size // 1000} kB")
