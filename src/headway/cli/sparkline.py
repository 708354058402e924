"""The characters that bars are drawn with in a terminal."""

import sys

BLOCKS, ASCII = " ▁▂▃▄▅▆▇█", " ..::ii##"
MARK, ASCII_MARK = "╵", "'"


def blocks() -> str:
    """Return the bar characters that stdout can show."""
    try:
        (BLOCKS + MARK).encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return ASCII
    return BLOCKS
