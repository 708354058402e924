"""A picture as PNG, by Pillow, which the extra `plot` brings; never imported without need."""

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from headway.cli.charts.picture import TONES, Area, Line, Picture, Point, Words

# Pillow's lines have no soft edges: draw large, then make small. Two pixels stay for each unit.
DRAWN, KEPT = 6, 2
ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}
BOLD_STROKE = 0.035


def write_png(picture: Picture, path: Path) -> None:
    """Draw and write the file, in the light colours."""
    size = (picture.width * DRAWN, picture.height * DRAWN)
    image = Image.new("RGB", size, TONES["paper"][0])
    draw = ImageDraw.Draw(image)
    for shape in picture.shapes:
        colour = TONES[shape.tone][0]
        match shape:
            case Line():
                width = round(shape.width * DRAWN)
                for points in _dashes(shape) if shape.dash else [shape.points]:
                    draw.line(_enlarged(points), fill=colour, width=width, joint="curve")
            case Area():
                draw.polygon(_enlarged(shape.points), fill=colour)
            case Words():
                _write(draw, shape, colour)
    image.reduce(DRAWN // KEPT).save(path, format="PNG", optimize=True)


def _write(draw: ImageDraw.ImageDraw, words: Words, colour: str) -> None:
    font = ImageFont.load_default(words.size * DRAWN)
    # The font that comes with Pillow has one weight.
    stroke = words.size * DRAWN * BOLD_STROKE / 2 if words.is_bold else 0
    place = _enlarged((words.at,))[0]
    anchor = ANCHORS[words.place]
    draw.text(
        place,
        words.text,
        fill=colour,
        font=font,
        anchor=anchor,
        stroke_width=stroke,
        stroke_fill=colour,
    )


def _dashes(line: Line) -> list[tuple[Point, Point]]:
    """Return the pieces of a level dashed line."""
    (start, y), (end, _) = line.points
    count = int((end - start) / (2 * line.dash)) + 1
    starts = [start + 2 * line.dash * number for number in range(count)]
    return [((x, y), (min(end, x + line.dash), y)) for x in starts]


def _enlarged(points: tuple[Point, ...]) -> list[Point]:
    return [(x * DRAWN, y * DRAWN) for x, y in points]
