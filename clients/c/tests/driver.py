"""A front-end in Python, and so in Rust, that obeys the lines of `driver.c` which tests of all
clients need.

    python driver.py URL NAME [sources=a,b] [buffer=N] [release=2] [bytes_max=N] [...]
"""

import json
import queue
import sys
import threading
import time

from catchment import frontend
from frontend import payload

ENDED, FULL = -2, -1
REASONS = {1: "buffer", 2: "hardware", 3: "busy"}
KINDS = ["", "prepare", "start", "pause", "continue", "stop", "cancel"]


class Driver:
    def __init__(self, url: str, name: str, options: dict[str, str]) -> None:
        names = options.get("sources", "").split(",")
        buffer = int(options.get("buffer", 64 << 20))
        longest = int(options.get("bytes_max", min(1 << 20, buffer // 2 // len(names))))
        marks = options.get("flags") == "2"
        wait = int(options.get("connect_ms", 10_000)) / 1000
        self.next_key = [0] * len(names)
        # Kinds of commands that the callback refuses, answers at a line, is long at.
        self.kinds = {how: int(options.get(how, -1)) for how in ("refuse", "later", "long")}
        self.commands: list[str] = []
        self.answers: queue.Queue[bool] = queue.Queue()
        self.over = threading.Event()
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
            index=int(options["index"]) if "index" in options else None,
            wait=wait,
            on_command=self.on_command,
            skew=int(options.get("skew", 1 << 20)),
            buffer_ms=int(options.get("buffer_ms", 0)),
            stops_in_pause=options.get("stops") == "1",
        )
        self.sources = self.link.sources

    def on_command(self, command: frontend.Command) -> None:
        is_late = "slow" in command.settings
        if command.kind == "set":
            for name, value in command.settings.items():
                self.commands.append(f"{name}={value}")
                if name == "locked":
                    raise RuntimeError("locked is fixed")
        else:
            kind = KINDS.index(command.kind)
            self.commands.append(f"{kind} {command.run}")
            if kind == self.kinds["refuse"]:
                raise RuntimeError("no high voltage")
            if kind == self.kinds["long"]:
                self.over.wait()
            is_late = kind == self.kinds["later"]
        if is_late and self.answers.get():
            raise RuntimeError("the pump is off")

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

    def tell(self, how: str, rest: list[str]) -> dict[str, object] | None:
        """Obeys a line about commands, promises and reports; None: it is another one."""
        if how == "over":
            self.over.set()
        elif how == "answer":
            self.answers.put(rest == ["1"])
        elif how == "low":
            self.sources[int(rest[0])].low_water(int(rest[1]), idle=rest[2] == "1")
        elif how == "status" and isinstance(self.link, frontend.Frontend):
            self.link.say(" ".join(rest))
        elif how == "alarm" and isinstance(self.link, frontend.Frontend):
            self.link.alarm(rest[0], "")
        else:
            return {"commands": self.commands} if how == "commands" else None
        return {"result": 0, "error": ""}

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
        if answer := driver.tell(how, rest):
            say(answer)
            continue
        numbers = [int(number) for number in rest]
        if how == "close":
            say({"unconfirmed": driver.link.close(numbers[0] / 1000)})
            return
        say(driver.obey(how, numbers))


if __name__ == "__main__":
    main()
