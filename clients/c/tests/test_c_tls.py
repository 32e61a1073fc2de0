"""What the C client does under TLS: what it trusts, what it says, and what breaks within TLS."""

import socket
import subprocess
import threading
from pathlib import Path

import pytest

from frontend import CLIENT, FrontEnd, check_fragments, compiled, driver, error_of
from recorder import Recorder
from tls import Certificates, certificates, compiled_tls, tls_driver
from tunnel import Break, Tunnel

__all__ = ["certificates", "driver", "tls_driver"]


def delivers(program: Path, recorder: Recorder, url: str, **options: object) -> None:
    """A front-end delivers what it made, whatever is between."""
    with FrontEnd(program, url, **options, sources="a,b").opened() as camera:
        assert camera.do("each 0 300 1000")["result"] == 0
        assert camera.close() == 0
    for source, name in enumerate("ab"):
        check_fragments(recorder.log(name), source, [1000] * 300)
    recorder.check()


@pytest.mark.parametrize(
    ("recorders", "trusted"),
    [("own", "own"), ("signed", "authority"), ("signed", "signed")],
    ids=["its own", "an authority's", "its own, which an authority signed"],
)
def test_a_certificate_that_is_trusted_admits(
    tls_driver: Path, certificates: Certificates, recorders: str, trusted: str
) -> None:
    with Recorder(certificates.context(recorders)) as recorder:
        for host in ["127.0.0.1", "localhost"]:
            url = recorder.url.replace("127.0.0.1", host)
            with FrontEnd(tls_driver, url, certificate=certificates.file(trusted)).opened() as one:
                assert one.do("send 0 10 10")["sent"] == 10
                assert one.close() == 0
        recorder.check()


def test_a_wrong_certificate_is_told_precisely(
    tls_driver: Path, certificates: Certificates, tmp_path: Path
) -> None:
    own, elsewhere = certificates.file("own"), certificates.file("elsewhere")
    with Recorder(certificates.context("own")) as recorder:
        error = error_of(tls_driver, recorder.url, certificate=certificates.file("other"))
        assert "the certificate is not trusted: self" in error
        error = error_of(tls_driver, recorder.url)
        assert error.endswith("give the recorder's certificate, or its authority's, to trust")
        missing = tmp_path / "missing.pem"
        error = error_of(tls_driver, recorder.url, certificate=missing)
        assert error == f"{missing}: expected certificates in PEM: No such file or directory"
        error = error_of(tls_driver, recorder.url, certificate=own.with_suffix(".key"))
        assert error.startswith(f"{own.with_suffix('.key')}: expected certificates in PEM: ")
    with Recorder(certificates.context("elsewhere")) as recorder:
        error = error_of(tls_driver, recorder.url, certificate=elsewhere)
        assert error.endswith("the certificate does not name this host")


def test_a_recorder_that_is_spoken_to_in_the_wrong_way_is_named(
    tls_driver: Path, driver: Path, certificates: Certificates
) -> None:
    own = certificates.file("own")
    with Recorder() as recorder:
        url = recorder.url.replace("+tcp", "")
        error = error_of(tls_driver, url, certificate=own)
        assert "a recorder without TLS is catchment+tcp://" in error
        assert "catchment_tls.c" in error_of(driver, url, certificate=own)
    with Recorder(certificates.context("own")) as recorder:
        error = error_of(driver, recorder.url.replace("://", "+tcp://"))
        assert error.endswith("; a recorder with TLS is catchment://")
    old = certificates.context("own")
    old.maximum_version = old.maximum_version.TLSv1_2
    with Recorder(old) as recorder:
        error = error_of(tls_driver, recorder.url, certificate=own)
        assert "protocol version" in error


def test_what_is_no_recorder_is_named(tls_driver: Path, certificates: Certificates) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            try:
                while True:
                    greeted, _ = server.accept()
                    with greeted:
                        greeted.sendall(b"220 mail.example.org ESMTP\r\n")
                        while greeted.recv(4096):
                            pass
            except OSError:
                pass

        thread = threading.Thread(target=greet)
        thread.start()
        url = f"catchment://127.0.0.1:{server.getsockname()[1]}"
        error = error_of(tls_driver, url, certificate=certificates.file("own"))
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert "does not speak TLS" in error


def test_a_token_goes_under_tls_and_its_refusal_is_told(
    tls_driver: Path, certificates: Certificates
) -> None:
    own = certificates.file("own")
    with Recorder(certificates.context("own")) as recorder:
        recorder.refuse(2, 0, "no token of the role source")
        with FrontEnd(tls_driver, recorder.url, certificate=own, token="wrong") as refused:
            error = refused.answer()["error"]
        assert error == "the recorder said: token (2): no token of the role source"
        with FrontEnd(tls_driver, recorder.url, certificate=own, token="right").opened() as camera:
            assert camera.close() == 0
        assert recorder.session.token == "right"
        recorder.check()


# Of either side: nothing, within the hello of TLS, within the rest of the handshake, behind it,
# within a record of the session.
BYTES = [0, 1, 6, 100, 300, 600, 900, 1_200, 1_500, 2_000, 5_000, 20_000]


@pytest.mark.parametrize("side", ["sender", "recorder"])
@pytest.mark.parametrize("connection", ["control", "data"])
def test_a_cut_at_any_byte_loses_nothing(
    tls_driver: Path, certificates: Certificates, side: str, connection: str
) -> None:
    for limit in BYTES:
        broken = Break(sender=limit) if side == "sender" else Break(recorder=limit)
        breaks = [broken] if connection == "control" else [Break(), broken]
        with (
            Recorder(certificates.context("own")) as recorder,
            Tunnel(recorder.port, *breaks) as tunnel,
        ):
            own = certificates.file("own")
            delivers(tls_driver, recorder, tunnel.url(recorder.url), certificate=own)


def test_a_connection_that_is_reset_raises_no_signal(
    tls_driver: Path, certificates: Certificates
) -> None:
    """SIGPIPE would end a program that serves its session itself."""
    with (
        Recorder(certificates.context("own")) as recorder,
        FrontEnd(
            tls_driver,
            recorder.url,
            certificate=certificates.file("own"),
            sources="a,b",
            thread=0,
        ).opened() as camera,
    ):
        for items in range(100, 2_000, 100):
            recorder.after(items, recorder.cut)
        assert camera.do("each 0 1000 1000")["result"] == 0
        assert camera.close() == 0
        recorder.check()


@pytest.mark.parametrize("thread", [1, 0])
@pytest.mark.parametrize("connection", ["control", "data"])
def test_a_recorder_that_falls_silent_in_tls_is_left(
    tls_driver: Path, certificates: Certificates, connection: str, thread: int
) -> None:
    breaks = [Break(recorder=limit, is_silent=True) for limit in (0, 300)]
    if connection == "data":  # each attempt has a control connection and two of data
        breaks = [Break(), breaks[0], Break(), Break(), breaks[1]]
    with (
        Recorder(certificates.context("own")) as recorder,
        Tunnel(recorder.port, *breaks) as tunnel,
    ):
        own, url = certificates.file("own"), tunnel.url(recorder.url)
        delivers(tls_driver, recorder, url, certificate=own, thread=thread)


def test_silence_in_the_handshake_is_told(tls_driver: Path, certificates: Certificates) -> None:
    breaks = [Break(recorder=300, is_silent=True)] * 99
    with (
        Recorder(certificates.context("own")) as recorder,
        Tunnel(recorder.port, *breaks) as tunnel,
    ):
        # A try that has not come to its end says less: it has more and more time.
        connect_ms, error = 1_500, ""
        while not error.endswith("no answer in the handshake"):
            with FrontEnd(
                tls_driver,
                tunnel.url(recorder.url),
                certificate=certificates.file("own"),
                connect_ms=connect_ms,
            ) as camera:
                error = camera.answer()["error"]
            assert "no answer" in error
            connect_ms *= 2


def test_what_is_sent_leaves_no_memory_taken(tls_driver: Path, certificates: Certificates) -> None:
    with (
        Recorder(certificates.context("own")) as recorder,
        FrontEnd(
            tls_driver, recorder.url, certificate=certificates.file("own"), sources="a"
        ).opened() as camera,
    ):
        assert camera.do("send 0 100 1000")["sent"] == 100
        camera.do("durable 0 100")
        before = camera.do("blocks")
        assert camera.do("send 0 10000 1000")["sent"] == 10_000
        camera.do("durable 0 10100")
        recorder.wait_pings(2)
        assert camera.do("blocks") == before
        assert camera.close() == 0


def test_its_threads_have_no_race(certificates: Certificates, tmp_path: Path) -> None:
    program = compiled_tls(tmp_path, ["-fsanitize=thread", "-O1", "-g"])
    with Recorder(certificates.context("own")) as recorder:
        recorder.after(150, recorder.cut)
        delivers(program, recorder, recorder.url, certificate=certificates.file("own"))


def test_without_threads_the_program_polls(certificates: Certificates, tmp_path: Path) -> None:
    program = compiled_tls(tmp_path, ["-DCATCHMENT_NO_THREADS", "-O1", "-g"])
    with Recorder(certificates.context("own")) as recorder:
        recorder.after(150, recorder.cut)
        delivers(program, recorder, recorder.url, certificate=certificates.file("own"), thread=0)


def test_make_installs_tls_as_a_library_of_its_own(
    certificates: Certificates, tmp_path: Path
) -> None:
    target = [f"BUILD={tmp_path}/build", f"PREFIX={tmp_path}/usr"]
    command = ["make", "--no-print-directory", "-C", str(CLIENT), "install", *target]
    subprocess.run(command, check=True, capture_output=True)
    page = (tmp_path / "usr/lib/pkgconfig/catchment-tls.pc").read_text()
    assert "Requires: catchment\nLibs: -L${libdir} -lcatchment_tls -lssl -lcrypto\n" in page
    assert (tmp_path / "usr/lib/libcatchment_tls.a").exists()
    with Recorder(certificates.context("own")) as recorder:
        hello = [str(tmp_path / "build/hello_tls"), recorder.url, str(certificates.file("own"))]
        ran = subprocess.run(hello, capture_output=True, check=False)
        assert (ran.returncode, ran.stderr) == (0, b"")
        assert len(recorder.log().fragments) == 1000
        recorder.check()


def test_the_first_file_needs_no_openssl(tmp_path: Path) -> None:
    """Also a program that is linked with the first file alone, and says nothing of TLS."""
    hello = compiled(tmp_path, "hello", "examples/hello.c", "catchment.c", flags=["-O1"])
    needed = subprocess.run(["ldd", hello], check=True, capture_output=True, text=True).stdout
    assert "ssl" not in needed
    assert "openssl" not in (CLIENT / "catchment.c").read_text().lower()
