"""TLS for tests: certificates made by the command `openssl`, and the driver with OpenSSL."""

import os
import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from frontend import HERE, SANITIZERS, FrontEnd, compiled, driver
from recorder import EVENTS, Recorder
from tunnel import Tunnel

__all__ = [
    "Certificates",
    "Way",
    "c_client",
    "certificates",
    "client",
    "driver",
    "tls_driver",
    "way",
]


def compiled_tls(folder: Path, flags: list[str] | None = None) -> Path:
    """The driver with TLS."""
    sources = ["tests/driver.c", "catchment.c", "catchment_tls.c"]
    flags = [*(flags or SANITIZERS), "-DWITH_TLS"]
    return compiled(folder, "driver", *sources, flags=flags, libraries=("-lssl", "-lcrypto"))


def why_no_tls() -> str | None:
    """Why the tests of TLS cannot be made here."""
    command = [*os.environ.get("CC", "cc").split(), "-E", "-x", "c", "-"]
    include = "#include <openssl/ssl.h>\n"
    found = subprocess.run(command, input=include, capture_output=True, text=True, check=False)
    if found.returncode:
        return "OpenSSL's headers are missing (Debian: apt-get install libssl-dev)"
    return None if shutil.which("openssl") else "the command openssl is missing"


@dataclass
class Certificates:
    """Certificates and keys in a folder, by name."""

    folder: Path

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.pem"

    def make(self, name: str, names: str, *, signed_by: str | None = None) -> None:
        """A certificate for some names, its own authority or signed by one."""
        key, request = self.folder / f"{name}.key", self.folder / f"{name}.request"
        extensions = self.folder / f"{name}.extensions"
        extensions.write_text(
            f"subjectAltName={names}\n" if names else "basicConstraints=CA:TRUE\n"
        )
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        self._openssl("req", *curve, "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        by = signed_by or name
        signing = ["-CA", self.file(by), "-CAkey", self.folder / f"{by}.key", "-CAcreateserial"]
        made = ["-extfile", extensions, "-days", "2", "-out", self.file(name)]
        signing = signing if signed_by else ["-signkey", key]
        self._openssl("x509", "-req", "-in", request, *signing, *made)

    def context(self, name: str) -> ssl.SSLContext:
        """What a recorder with a certificate does TLS by."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(self.file(name), self.folder / f"{name}.key")
        made.set_alpn_protocols(["catchment/1"])
        return made

    @staticmethod
    def _openssl(*arguments: object) -> None:
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """`own` and `other` for this machine, `elsewhere` for another one, `signed` by `authority`."""
    if why := why_no_tls():
        pytest.skip(why)
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    here = "IP:127.0.0.1,DNS:localhost"
    made.make("own", here)
    made.make("other", here)
    made.make("elsewhere", "DNS:elsewhere.example")
    made.make("authority", "")
    made.make("signed", here, signed_by="authority")
    return made


@pytest.fixture(scope="session")
def tls_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The front-end that does what a test says, with OpenSSL and the sanitizers."""
    if why := why_no_tls():
        pytest.skip(why)
    return compiled_tls(tmp_path_factory.mktemp("tls"))


@dataclass
class Way:
    """How a front-end connects: in the clear or under TLS, with a service thread or without."""

    program: Path
    has_thread: bool
    certificates: Certificates | None

    def recorder(self, service: int = EVENTS) -> Recorder:
        return Recorder(self.certificates.context("own") if self.certificates else None, service)

    @property
    def is_c(self) -> bool:
        return self.program.suffix != ".py"

    def front_end(
        self, recorder: Recorder, tunnel: Tunnel | None = None, **options: object
    ) -> FrontEnd:
        if self.certificates:
            options["certificate"] = self.certificates.file("own")
        url = tunnel.url(recorder.url) if tunnel else recorder.url
        return FrontEnd(self.program, url, **options, thread=int(self.has_thread))


def made_way(request: pytest.FixtureRequest) -> Way:
    """The way that a parameter names."""
    name = str(request.param)
    made = request.getfixturevalue("certificates") if "TLS" in name else None
    if name.startswith("Python"):
        return Way(HERE / "driver.py", True, made)
    return Way(request.getfixturevalue("tls_driver" if made else "driver"), "no" not in name, made)


C_WAYS = ["C", "C, no thread", "C, TLS", "C, TLS, no thread"]


@pytest.fixture
def c_client(driver: Path) -> Way:
    """The client in C, for what it alone has."""
    return Way(driver, has_thread=True, certificates=None)


@pytest.fixture(params=["C", "Python"])
def client(request: pytest.FixtureRequest) -> Way:
    """Each client, in the clear and with a thread."""
    return made_way(request)


@pytest.fixture(params=[*C_WAYS, "Python", "Python, TLS"])
def way(request: pytest.FixtureRequest) -> Way:
    """Each way of each client; that in Python is that in Rust."""
    return made_way(request)
