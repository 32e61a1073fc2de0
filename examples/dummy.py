"""A front-end that sends as fast as it is asked, as the dummy front-end of MIDAS does.

    python examples/dummy.py URL [--bytes 10000] [--rate 0] [--sources 1] [--seconds 5]
                                 [--index 0] [--buffer 64]

It also prints what it cost. clients/c/examples/dummy.c is the same in C, and `catchment emulate
midas-dummy` in Rust. --rate is fragments per second of each source, 0: as many as can be; --buffer
is in MiB. Keys count from the time of day, in 1/rate s or us, so that a second start goes on above
the first one.
"""

import argparse
import sys
import time

import numpy as np

from catchment import frontend


def main() -> int:
    """Send, and print what it cost; 1 if the recorder did not confirm all of it."""
    options = arguments()
    names = [f"s{index}" for index in range(options.sources)] if options.sources > 1 else [""]
    longest = max(options.bytes, 1)
    sources = [frontend.Source(name=it, fragment_bytes_max=longest, marks=True) for it in names]
    data = np.random.default_rng(1).integers(0, 256, options.bytes, np.uint8)
    link = frontend.connect(
        options.url,
        "dummy",
        sources=sources,
        buffer=options.buffer << 20,
        index=options.index or None,
    )
    first = int(time.time() * (options.rate or 1e6))
    made, begin, cpu = 0, time.monotonic(), time.process_time()
    while time.monotonic() < begin + options.seconds:
        if options.rate > 0:
            time.sleep(max(begin + made / options.rate - time.monotonic(), 0))
        for source in link.sources:
            source.send(first + made, data)
        made += 1
    not_confirmed = link.close(30)
    passed, cpu = time.monotonic() - begin, time.process_time() - cpu
    fragments = made * len(sources)
    megabytes = fragments * options.bytes / 1e6
    print(
        f"{fragments} fragments of {options.bytes} bytes in {passed:.2f} s, until all was durable: "
        f"{fragments / passed:.0f} fragments/s, {megabytes / passed:.1f} MB/s; {cpu:.2f} CPU s, "
        f"{1e3 * cpu / max(megabytes, 1e-9):.2f} core-s per GB; {not_confirmed} not confirmed"
    )
    return 1 if not_confirmed else 0


def arguments() -> argparse.Namespace:
    """Return the command's arguments."""
    parser = argparse.ArgumentParser(description="Send fragments of one size.")
    parser.add_argument("url", help="catchment+tcp://HOST:PORT")
    parser.add_argument("--bytes", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--sources", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--index", type=int, default=0)
    parser.add_argument("--buffer", type=int, default=64)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
