import subprocess
import sys

import pytest

from dynamo_operator.child_processes import dying_with_this_process

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux ties a process to its parent"
)


def test_a_command_keeps_its_arguments_its_environment_and_its_exit_code():
    program = "import os, sys; print(os.environ['LAB'], 'PWD' in os.environ, sys.argv[1:]); exit(3)"
    command = [sys.executable, "-c", program, "a b", "", "$HOME"]

    result = subprocess.run(
        dying_with_this_process(command), env={"LAB": "1"}, capture_output=True, text=True
    )

    assert result.stdout == "1 False ['a b', '', '$HOME']\n"
    assert result.returncode == 3


def test_a_command_does_not_run_when_its_parent_was_gone_before_it_could_ask(tmp_path):
    command = dying_with_this_process(["/usr/bin/touch", str(tmp_path / "ran")])

    # Another process between the two stands for whoever inherits the orphan.
    inherited = subprocess.run(["/bin/sh", "-c", '"$@"; exit $?', "sh", *command])

    assert inherited.returncode != 0
    assert not (tmp_path / "ran").exists()
