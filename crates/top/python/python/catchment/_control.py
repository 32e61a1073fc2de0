"""Query and control a running node."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

from catchment._errors import CatchmentError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from http.client import HTTPResponse

_ASK_EVERY_SECONDS = 0.2


class _Options(TypedDict, total=False):
    configuration: int | None
    request: str | None
    run: int | None
    wait: bool


class ControlError(CatchmentError):
    """A node refused a request, or a command failed; `problem` has the answer (RFC 9457)."""

    def __init__(self, problem: dict[str, Any]) -> None:
        super().__init__(str(problem.get("detail", problem)))
        self.problem = problem

    @property
    def status(self) -> int:
        """The HTTP status; 0 for a command that was begun and then failed."""
        return int(self.problem.get("status", 0))


class ControlConnectionError(CatchmentError, ConnectionError):
    """There is no node at that address, or it cannot be reached; the message says why."""


class Control:
    """A node under control: `catchment run` with `[control]` or `--listen`.

    What the API says in JSON comes back as dictionaries and lists; the page `/api/docs` of the node
    says what is in them. Commands wait for their end; the same `request` id is done once.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8750",
        token: str | None = None,
        *,
        certificate: str | os.PathLike[str] | None = None,
        timeout: float = 30.0,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"expected http://HOST:PORT or https://.., got {url!r}")
        self._url = url.rstrip("/")
        self._token = token
        self._timeout = timeout
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if certificate is not None:
            context = ssl.create_default_context(cafile=certificate)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    def __repr__(self) -> str:
        return f"Control({self._url!r})"

    def state(self) -> dict[str, Any]:
        """Return the node as it is now: verdict, state, run, rates, loss."""
        return cast("dict[str, Any]", self._ask("GET", "/api/v1/state"))

    def sources(self) -> list[dict[str, Any]]:
        """Return all sources, worst first."""
        return self._list("/api/v1/sources", "sources")

    def devices(self) -> list[dict[str, Any]]:
        """Return the tree of devices, parents before children."""
        return self._list("/api/v1/devices", "devices")

    def set(self, device: str, **values: object) -> dict[str, Any]:
        """Set properties of a device; return it as it is then."""
        path = f"/api/v1/devices/{urllib.parse.quote(device)}/properties"
        return cast("dict[str, Any]", self._ask("PATCH", path, values))

    def configure(self, **options: Unpack[_Options]) -> dict[str, Any]:
        """Take the configuration."""
        return self.command("configure", **options)

    def arm(self, **options: Unpack[_Options]) -> dict[str, Any]:
        """Open sockets and files; nothing is recorded yet."""
        return self.command("arm", **options)

    def start(self, comment: str | None = None, **options: Unpack[_Options]) -> dict[str, Any]:
        """Begin a run; its number is `run` of what is returned."""
        return self.command("start", comment=comment, **options)

    def stop(self, comment: str | None = None, **options: Unpack[_Options]) -> dict[str, Any]:
        """End the run."""
        return self.command("stop", comment=comment, **options)

    def pause(self, comment: str | None = None, **options: Unpack[_Options]) -> dict[str, Any]:
        """Discard and count incoming data."""
        return self.command("pause", comment=comment, **options)

    def resume(self, **options: Unpack[_Options]) -> dict[str, Any]:
        """Record again."""
        return self.command("resume", **options)

    def disarm(self, **options: Unpack[_Options]) -> dict[str, Any]:
        """Close what was made ready."""
        return self.command("disarm", **options)

    def reset(self, **options: Unpack[_Options]) -> dict[str, Any]:
        """Forget a fault."""
        return self.command("reset", **options)

    def shutdown(self, **options: Unpack[_Options]) -> dict[str, Any]:
        """End the run and the program."""
        return self.command("shutdown", **options)

    def command(  # noqa: PLR0913 (all but the command are named)
        self,
        command: str,
        *,
        comment: str | None = None,
        configuration: int | None = None,
        request: str | None = None,
        run: int | None = None,
        wait: bool = True,
    ) -> dict[str, Any]:
        """Give a command, wait for its end unless told not to, and return what came of it.

        With `run`, the number of the run that it is meant for, the node refuses the command (status
        409) if another run, or none, is the current one.
        """
        request = request or str(uuid.uuid4())
        body = {
            "request": request,
            "command": command,
            "comment": comment,
            "configuration": configuration,
            "run": run,
        }
        result = cast("dict[str, Any]", self._ask("POST", "/api/v1/commands", body))
        while wait and result["status"] == "under_way":
            time.sleep(_ASK_EVERY_SECONDS)
            path = f"/api/v1/commands/{urllib.parse.quote(request, safe='')}"
            try:
                result = cast("dict[str, Any]", self._ask("GET", path))
            except (ControlError, OSError):
                if command != "shutdown":
                    raise
                # A node that has shut down no longer answers.
                result = {**result, "status": "done"}
        if result["status"] == "failed":
            raise ControlError({"status": 0, "detail": result["reason"], "result": result})
        return result

    def runs(
        self, *, search: str = "", limit: int = 50, before: int | None = None
    ) -> list[dict[str, Any]]:
        """Return runs of the catalogue, newest first."""
        query = {"search": search, "limit": str(limit)}
        if before is not None:
            query["before"] = str(before)
        return self._list(f"/api/v1/runs?{urllib.parse.urlencode(query)}", "runs")

    def run(self, number: int) -> dict[str, Any]:
        """Return one run of the catalogue."""
        return cast("dict[str, Any]", self._ask("GET", f"/api/v1/runs/{int(number)}"))

    def ledger(self, number: int) -> dict[str, int]:
        """Return the sum of a run's ledgers, without zeros."""
        ledger = cast("dict[str, Any]", self._ask("GET", f"/api/v1/runs/{int(number)}/ledger"))
        return cast("dict[str, int]", ledger["totals"])

    def alarms(self) -> list[dict[str, Any]]:
        """Return alarms, the worst first."""
        return self._list("/api/v1/alarms", "alarms")

    def acknowledge(self, alarm: str | int, comment: str | None = None) -> dict[str, Any]:
        """Say that an alarm was seen."""
        path = f"/api/v1/alarms/{urllib.parse.quote(str(alarm), safe='')}/acknowledge"
        return cast("dict[str, Any]", self._ask("POST", path, {"comment": comment}))

    def logs(
        self, *, level: str = "info", search: str = "", limit: int = 500
    ) -> list[dict[str, Any]]:
        """Return the last lines of the log, newest last."""
        query = urllib.parse.urlencode({"level": level, "search": search, "limit": limit})
        return self._list(f"/api/v1/logs?{query}", "lines")

    def stream(self) -> Iterator[tuple[str, Any]]:
        """Yield updates as they come: their name (state, sources, alarm, log) and what they say."""
        with self._open("GET", "/api/v1/stream", None) as answer:
            name = ""
            for raw in answer:
                line = raw.decode().rstrip("\n")
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: ") and name:
                    yield name, json.loads(line.removeprefix("data: "))
                    name = ""

    def _list(self, path: str, name: str) -> list[dict[str, Any]]:
        return cast("dict[str, list[dict[str, Any]]]", self._ask("GET", path))[name]

    def _ask(self, method: str, path: str, body: object = None) -> object:
        with self._open(method, path, body) as answer:
            return json.loads(answer.read())

    def _open(self, method: str, path: str, body: object) -> HTTPResponse:
        headers = {"Accept": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        # The address was checked to be one of HTTP.
        request = urllib.request.Request(  # noqa: S310
            self._url + path, data, headers, method=method
        )
        try:
            return cast("HTTPResponse", self._opener.open(request, timeout=self._timeout))
        except urllib.error.HTTPError as error:
            with error:
                text = error.read()
            try:
                problem = json.loads(text)
            except ValueError:
                problem = {"status": error.code, "detail": text.decode(errors="replace")}
            raise ControlError(problem) from None
        except urllib.error.URLError as error:
            message = f"no node answers at {self._url}: {error.reason}"
            raise ControlConnectionError(message) from error
