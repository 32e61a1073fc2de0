"""A front-end in Python, and so in Rust, that obeys the lines of `driver.c` which tests of all
clients need.

    python driver.py URL NAME [sources=a,b] [buffer=N] [release=2] [bytes_max=N] [...]
"""

import json
import sys
import time

from catchment import frontend
from frontend import payload

ENDED, FULL, REFUSED = -2, -1, -3
REASONS = {1: "buffer", 2: "hardware", 3: "busy"}


class Driver:
    def __init__(self, url: str, name: str, options: dict[str, str]) -> None:
        names = options.get("sources", "").split(",")
        buffer = int(options.get("buffer", 64 << 20))
        longest = int(options.get("bytes_max", min(1 << 20, buffer // 2 // len(names))))
        marks = options.get("flags") == "2"
        wait = int(options.get("connect_ms", 10_000)) / 1000
        self.next_key = [0] * len(names)
        if options.get("channels") == "1":
            self.link: frontend.Frontend | frontend.ChannelLink = frontend.channels(
                url, name, buffer=buffer, certificate=options.get("certificate"), wait=wait
            )
            self.sources: list[frontend.SourceLink] = []
            return
        self.link = frontend.connect(
            url,
            name,
            sources=[
                frontend.Source(name=name, fragment_bytes_max=longest, marks=marks)
                for name in names
            ],
            buffer=buffer,
            release="taken" if options.get("release") == "2" else "durable",
            token=options.get("token", ""),
            certificate=options.get("certificate"),
            wait=wait,
        )
        self.sources = self.link.sources

    def send(self, how: str, source: int, size: int) -> int:
        key = self.next_key[source]
        data = payload(source, key, size)
        try:
            if isinstance(self.link, frontend.ChannelLink):
                self.link.send(data)
            elif how in {"try", "put"}:
                sent = self.sources[source].try_send(key, data)
                if sent is not frontend.Sent.ACCEPTED:
                    return FULL if sent is frontend.Sent.FULL else ENDED
            else:
                self.sources[source].send(key, data)
        except frontend.FrontendError:
            return ENDED
        self.next_key[source] += 1
        return 0

    def obey(self, how: str, numbers: list[int]) -> dict[str, object]:
        source, count, size = [*numbers, 0, 0][:3]
        if how in {"send", "try", "put", "reserve"}:
            for done in range(count):
                if result := self.send(how, source, size):
                    return {"sent": done, "result": result}
            return {"sent": count, "result": 0}
        if how == "each":
            for _ in range(count):
                for at in range(len(self.sources)):
                    if result := self.send("send", at, size):
                        return {"result": result}
            return {"result": 0}
        if how == "abandon":
            key = self.next_key[source]
            keys = (key, key + count - 1)
            self.sources[source].abandon(count, REASONS[size], keys=keys)  # type: ignore[arg-type]
            self.next_key[source] += count
            return {"result": 0}
        if how == "durable":
            while self.sources[source].counts["durable"] < count:
                time.sleep(0.001)
        return dict(self.sources[source].counts)


def say(answer: dict[str, object]) -> None:
    print(json.dumps(answer), flush=True)


def main() -> None:
    url, name, *given = sys.argv[1:]
    try:
        driver = Driver(url, name, dict(one.split("=", 1) for one in given))
    except (frontend.FrontendError, ValueError) as error:
        say({"result": ENDED, "error": str(error)})
        return
    say({"result": 0, "error": ""})
    for line in sys.stdin:
        how, *rest = line.split()
        numbers = [int(number) for number in rest]
        if how == "close":
            say({"unconfirmed": driver.link.close(numbers[0] / 1000)})
            return
        say(driver.obey(how, numbers))


if __name__ == "__main__":
    main()
