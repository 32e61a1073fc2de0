"""Builds the golden packets of train-transfer.md from its rules.

    python3 golden_trains.py            compare page and files
    python3 golden_trains.py --write    write the packets into the page, and the files

The files: all packets as hex, for the tests (crates/format/wire/tests/golden_trains), and as bytes,
the seeds of the fuzz target (fuzz/corpus/train_packet). A test runs this program:
crates/top/python/tests/test_spec.py. It shares no code with the decoder.
"""

import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
PAGE = HERE / "train-transfer.md"
GOLDEN = HERE.parent.parent / "crates/format/wire/tests/golden_trains/packets.hex"
CORPUS = HERE.parent.parent / "fuzz/corpus/train_packet"
BEGIN, END = "<!-- golden packets -->\n", "<!-- end of golden packets -->\n"

TRAIN = bytes(range(20))
PAYLOAD = 8
START, STOP, PADDING = 1, 2, 4


class Layout(NamedTuple):
    """The settings of a mark: the fields' names and widths in their order."""

    name: str
    mark: str
    order: str
    fields: tuple[tuple[str, int], ...]


LAYOUTS = (
    Layout("trailer, little", "trailer", "little", (("frame", 4), ("flags", 1), ("packet", 3))),
    Layout("header, big", "header", "big", (("packet", 2), ("frame", 8), ("flags", 4))),
)


def mark(layout: Layout, values: dict[str, int]) -> bytes:
    pieces = (values[name].to_bytes(width, layout.order) for name, width in layout.fields)
    return b"".join(pieces)


def packet(layout: Layout, frame: int, flags: int, number: int, payload: bytes) -> bytes:
    made = mark(layout, {"frame": frame, "flags": flags, "packet": number})
    return payload + made if layout.mark == "trailer" else made + payload


def part(number: int) -> bytes:
    return TRAIN[number * PAYLOAD : (number + 1) * PAYLOAD]


def of_layout(layout: Layout) -> list[tuple[str, bytes]]:
    """Of each packet what it is or why it is refused, and its bytes."""
    frame = 0x01020304 if layout.order == "little" else 0x0102030405060708
    made: list[tuple[str, bytes]] = []

    def add(says: str, flags: int, number: int, payload: bytes, frame: int = frame) -> None:
        made.append((says, packet(layout, frame, flags, number, payload)))

    add("packet 0", START, 0, part(0))
    add("packet 1", 0, 1, part(1))
    add("packet 2", STOP, 2, part(2))
    add("packet 2, padded", STOP | PADDING, 2, part(2) + bytes(4))
    add("packet 1, other bits set", 0xF8, 1, part(1))
    last = (1 << 8 * dict(layout.fields)["frame"]) - 1
    add("packet 1 of the last frame", 0, 1, part(1), last)
    bare = mark(layout, {"frame": frame, "flags": START, "packet": 0})
    made.append(("refused, short: nothing", b""))
    made.append(("refused, short: the mark alone", bare))
    add("refused, packet: beyond the last", STOP, 3, part(0))
    add("refused, packet: the largest", 0, (1 << 16) - 1, part(0))
    add("refused, flags: no start", 0, 0, part(0))
    add("refused, flags: start in the middle", START, 1, part(1))
    add("refused, flags: no end", 0, 2, part(2))
    add("refused, flags: end before the last", STOP, 1, part(1))
    add("refused, flags: padding before the last", PADDING, 1, part(1))
    add("refused, length: a byte less", 0, 1, part(1)[:-1])
    add("refused, length: a byte more", 0, 1, part(1) + b"\0")
    add("refused, length: padding not said", STOP, 2, part(2) + bytes(4))
    add("refused, length: padding said, and not there", STOP | PADDING, 2, part(2))
    return made


def packets() -> list[tuple[str, str, bytes]]:
    """Of each packet: its layout, what it is or why it is refused, and its bytes."""
    of = ((layout, of_layout(layout)) for layout in LAYOUTS)
    return [(layout.name, says, data) for layout, made in of for says, data in made]


def page_block(made: list[tuple[str, str, bytes]]) -> str:
    lines = [BEGIN, "```text\n"]
    for layout in LAYOUTS:
        fields = ", ".join(f"{name} {width}" for name, width in layout.fields)
        lines.append(f"{layout.name}: {fields}\n")
        good = [one for one in made if one[0] == layout.name and not one[1].startswith("refused")]
        lines += [f"  {data.hex():64}  {says}\n" for _, says, data in good]
    return "".join([*lines, "```\n", END])


def slug(text: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def main() -> int:
    made = packets()
    text = "".join(f"# {layout}: {says}\n{data.hex()}\n" for layout, says, data in made)
    files = {GOLDEN: text.encode()}
    files |= {CORPUS / slug(f"{layout} {says}"): data for layout, says, data in made}
    page = PAGE.read_text()
    begin, end = page.index(BEGIN), page.index(END) + len(END)
    wanted = page[:begin] + page_block(made) + page[end:]
    if "--write" in sys.argv:
        PAGE.write_text(wanted)
        for path, data in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return 0
    wrong = [] if wanted == page else [PAGE]
    wrong += [
        path for path, data in files.items() if not path.exists() or path.read_bytes() != data
    ]
    for path in wrong:
        print(f"{path} is not as made: python3 docs/spec/golden_trains.py --write")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
