"""The C client without a network, and what a user gets of it: header, library, examples."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from frontend import (
    CLIENT,
    FrontEnd,
    check_fragments,
    check_sequences,
    compiled,
    driver,
    payload,
)
from recorder import Recorder

__all__ = ["driver"]

GOLDEN = CLIENT.parent.parent / "crates/format/wire/tests/golden"
NO_THREADS = ["-DCATCHMENT_NO_THREADS", "-O1", "-g"]


@pytest.mark.parametrize("name", ["core", "histories"])
def test_the_core_speaks_golden_messages_and_survives_random_histories(
    tmp_path: Path, name: str
) -> None:
    program = compiled(tmp_path, name, f"tests/{name}.c")
    ran = subprocess.run([program, GOLDEN], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_the_header_is_one_of_cpp_too(tmp_path: Path) -> None:
    source = tmp_path / "user.cpp"
    source.write_text(
        '#include "catchment.h"\n'
        "int main() {\n"
        '    catchment *c = catchment_connect("catchment+tcp://h", "n", nullptr);\n'
        "    return c ? static_cast<int>(catchment_close(c, 0)) : 0;\n"
        "}\n"
    )
    compiled(tmp_path, "user.o", str(source), flags=["-std=c++11", "-c"], compiler="CXX")


def test_a_result_that_is_not_used_is_a_warning(tmp_path: Path) -> None:
    source = tmp_path / "user.c"
    source.write_text(
        '#include "catchment.h"\nvoid f(catchment *c) { catchment_try_send(c, 0, 0, 0, 0); }\n'
    )
    with pytest.raises(AssertionError, match="unused-result"):
        compiled(tmp_path, "user.o", str(source), flags=["-c"])


def test_without_threads_the_program_polls(tmp_path: Path) -> None:
    program = compiled(tmp_path, "driver", "tests/driver.c", "catchment.c", flags=NO_THREADS)
    with (
        Recorder() as recorder,
        FrontEnd(program, recorder.url, sources="a", thread=0).opened() as camera,
    ):
        recorder.after(150, recorder.cut)
        assert camera.do("send 0 300 1000")["sent"] == 300
        assert camera.close() == 0
        check_fragments(recorder.log("a"), 0, [1000] * 300)
        recorder.check()


def test_its_threads_have_no_race(tmp_path: Path) -> None:
    flags = ["-fsanitize=thread", "-O1", "-g"]
    program = compiled(tmp_path, "driver", "tests/driver.c", "catchment.c", flags=flags)
    with (
        Recorder() as recorder,
        FrontEnd(program, recorder.url, sources="a,b", buffer=1 << 20).opened() as camera,
    ):
        recorder.after(1_500, recorder.cut)
        assert camera.do("each 0 1000 5000")["result"] == 0
        assert camera.do("status running")["result"] == 0
        assert camera.close() == 0
        check_fragments(recorder.log("b"), 1, [5000] * 1000)
        recorder.check()


def test_many_threads_may_send_to_one_source(tmp_path: Path) -> None:
    flags = ["-fsanitize=thread", "-O1", "-g"]
    program = compiled(tmp_path, "threads", "tests/threads.c", "catchment.c", flags=flags)
    with Recorder() as recorder:
        recorder.after(700, recorder.cut)
        ran = subprocess.run([program, recorder.url], capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stderr) == (0, "")
        check_sequences(recorder.log("a"))
        fragments = [(item.key, len(item.data)) for item in recorder.log("a").fragments]
        assert fragments == [(key, key % 3_000) for key in range(2_000)]
        recorder.check()


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make install` installs, and the examples beside it."""
    folder = tmp_path_factory.mktemp("make")
    target = [f"BUILD={folder}/build", f"PREFIX={folder}/usr", f"PYTHON={sys.executable}"]
    environment = {key: os.environ[key] for key in ("PATH", "CC") if key in os.environ}
    ran = subprocess.run(
        ["make", "--no-print-directory", "-C", str(CLIENT), "install", *target],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return folder


def test_make_installs_a_library_that_pkg_config_finds(made: Path) -> None:
    assert (made / "usr/include/catchment.h").exists()
    assert (made / "usr/lib/libcatchment.a").exists()
    page = (made / "usr/lib/pkgconfig/catchment.pc").read_text()
    assert f"prefix={made}/usr\n" in page
    assert "Libs: -L${libdir} -lcatchment -lpthread\n" in page
    assert "recorder=${prefix}/share/catchment/recorder.py\n" in page
    version = next(line for line in page.splitlines() if line.startswith("Version: "))
    assert f'version = "{version[9:]}"' in (CLIENT.parent.parent / "Cargo.toml").read_text()


def test_without_openssl_make_leaves_tls_out_and_says_so(tmp_path: Path) -> None:
    command = ["make", "-n", "-C", str(CLIENT), f"BUILD={tmp_path}", "CC=cc -nostdinc"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Without TLS: OpenSSL's headers are missing" in ran.stdout
    assert "catchment_tls" not in ran.stdout
    assert "libcatchment.a" in ran.stdout


def test_the_smallest_front_end_has_20_lines_and_delivers(made: Path) -> None:
    lines = (CLIENT / "examples/hello.c").read_text().splitlines()
    assert len(lines) <= 20
    with Recorder() as recorder:
        ran = subprocess.run([made / "build/hello", recorder.url], capture_output=True, check=False)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
        fragments = recorder.log().fragments
        assert [item.key for item in fragments] == list(range(1000))
        assert {len(item.data) for item in fragments} == {256 * 256 * 2}
        recorder.check()


def test_the_guide_shows_the_smallest_front_end_and_compiles(tmp_path: Path) -> None:
    page = (CLIENT.parent.parent / "docs/guide/frontend.md").read_text()
    hello, options, tls = [part.split("```\n")[0] for part in page.split("```c\n")[1:]]
    example = (CLIENT / "examples/hello.c").read_text()
    assert hello == example.split("*/\n", 1)[1]
    head = (
        '#include <stdlib.h>\n#include "catchment.h"\ncatchment *f(void);\ncatchment *f(void) {\n'
    )
    for name, text in [("options", options), ("tls", tls)]:
        source = tmp_path / f"{name}.c"
        source.write_text(f"{head}{text}return c;\n}}\n")
        compiled(tmp_path, f"{name}.o", str(source), flags=["-c"])


def test_the_dummy_front_end_says_what_it_cost(made: Path) -> None:
    with Recorder() as recorder:
        options = {"bytes": 3000, "rate": 500, "sources": 20, "seconds": 0.5, "index": 2}
        given = [text for key, value in options.items() for text in (f"--{key}", str(value))]
        command = [str(made / "build/dummy"), recorder.url, *given]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert "fragments of 3000 bytes in" in ran.stdout
        assert ran.stdout.endswith("; 0 not confirmed\n")
        assert recorder.session.name == "dummy-2"
        logs = recorder.session.logs
        assert len(logs) == 20
        assert len({len(log.fragments) for log in logs}) == 1
        for log in logs:
            check_sequences(log)
        recorder.check()


def test_the_recorder_is_a_command_for_tests_in_any_language(driver: Path, made: Path) -> None:
    """As it is installed, and as the guide has it: its address, then an answer to each line."""
    page = (CLIENT.parent.parent / "docs/guide/frontend.md").read_text()
    lines = page.split("<!-- lines of recorder.py -->\n")[1].split("\n\n")[0].splitlines()
    shown = [line.split("`")[1].split()[0] for line in lines if line.startswith("| `")]
    said = set()
    command = [sys.executable, "-u", str(made / "usr/share/catchment/recorder.py")]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as recorder:
        assert recorder.stdin
        assert recorder.stdout
        assert recorder.stderr
        url = recorder.stdout.readline().strip()

        def tell(line: str) -> str:
            assert recorder.stdin
            assert recorder.stdout
            said.add(line.split(maxsplit=1)[0])
            recorder.stdin.write(line + "\n")
            recorder.stdin.flush()
            return recorder.stdout.readline().strip()

        assert tell("taken") == "{}"
        with FrontEnd(driver, url, sources="left").opened() as camera:
            assert tell("later") == "ok"
            camera.do("send 0 100 1000")
            assert tell("wait 100") == "ok"
            assert camera.do("counts 0")["durable"] == 0
            assert tell("restart") == "ok"
            for line in ("wait 100", "hold", "cut", "mute"):
                assert tell(line) == "ok"
            camera.do("send 0 100 1000")
            assert tell("go") == "ok"
            assert tell("durable") == "ok"
            assert tell("wait 200") == "ok"
            assert camera.close() == 0
        taken = json.loads(tell("taken"))
        assert taken == {"camera/left": [[key, payload(0, key, 1000).hex()] for key in range(200)]}
        assert tell("jump").startswith("error: no line 'jump'")
        recorder.stdin.close()
        assert recorder.stderr.read() == ""
    assert recorder.returncode == 0
    assert said - {"jump"} == set(shown)
