"""The command line turns any file and any option into an answer, or into one message and an exit code."""

import shutil
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from dssl.cli.main import main
from dssl.data.ingest import open_dataset

from . import specs
from .files import damaged, text_files, with_options
from .profile import thorough


def answer(*arguments):
    """Run a command; require an exit code that the README names, with one message and no traceback on failure."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code in (0, 1, 2), result.output
    if result.exit_code:
        assert "error:" in result.stderr.lower()
        assert "Traceback" not in result.output
    return result.exit_code


def ingested(file):
    """Ingest a file through the command line, in a folder of its own; return the exit code."""
    folder = Path(tempfile.mkdtemp(prefix="dssl-fuzz-"))
    try:
        source = file.write(folder)
        options = {**file.options,
                   **({"labels": folder / file.options["labels"]} if file.options.get("labels") else {})}
        flags = [part for name, value in options.items() for part in ("--read", f"{name}={value}")]
        code = answer("ingest", source, folder / "out", *flags)
        assert (folder / "out").exists() == (code == 0)
        if code == 0:
            assert len(open_dataset(folder / "out")) > 0
        return code
    finally:
        shutil.rmtree(folder)


@pytest.mark.slow
def test_ingest_ends_with_an_exit_code_of_its_own():
    codes = set()

    @thorough(25)
    @given(damaged() | text_files | with_options())
    def check(file):
        codes.add(ingested(file))

    check()
    assert codes >= {0, 1}


@pytest.mark.parametrize("option", ["--set", "--read"])
def test_options_of_any_text(tmp_path, option):
    (tmp_path / "t.csv").write_text("a,y\n1,0\n2,1\n")
    texts = st.text(max_size=8) | st.builds("{}={}".format, st.sampled_from(specs.KEYS), st.text(max_size=5))
    command = ("plan", specs.REPOSITORY / "pipelines" / "digits_svm.yaml", "--workspace", tmp_path / "work")

    @thorough(30)
    @given(texts)
    def check(text):
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        answer(*(command if option == "--set" else ("ingest", tmp_path / "t.csv", out)), option, text)

    check()
    assert not (tmp_path / "work").exists()


def test_plan_of_a_changed_pipeline(tmp_path):
    codes, path = set(), tmp_path / "given.yaml"

    @thorough(30)
    @given(specs.damaged_texts([specs.REPOSITORY / "pipelines" / "digits_svm.yaml"]))
    def check(raw):
        path.write_bytes(raw)
        codes.add(answer("plan", path, "--workspace", tmp_path / "work"))

    check()
    assert codes >= {0, 2}
    assert not (tmp_path / "work").exists()
