import sys
from pathlib import Path

import pytest

from dynamo_operator.local_cluster.images import ImageEnvironment, ImageMap, UnknownImageError


def test_an_unknown_image_is_refused_naming_the_known_ones():
    images = ImageMap({"lab/b:1": ImageEnvironment(), "lab/a:1": ImageEnvironment()})

    with pytest.raises(UnknownImageError, match=r"lab/c:1.*known images: lab/a:1, lab/b:1"):
        images.resolve("lab/c:1")


def test_a_first_word_that_the_image_knows_is_replaced():
    image = ImageEnvironment(commands={"/publish": ("python", "-m", "publish")})

    assert image.command_line(["/publish"], ["--fast"]) == ("python", "-m", "publish", "--fast")


def test_args_follow_the_entrypoint_when_no_command_is_given():
    image = ImageEnvironment(entrypoint=("/bin/echo",))

    assert image.command_line([], ["a"]) == ("/bin/echo", "a")


def test_no_command_at_all_is_an_error():
    with pytest.raises(ValueError, match="no command specified"):
        ImageEnvironment().command_line([], [])


def test_a_virtual_environment_is_described_with_the_installation_behind_it():
    image = ImageEnvironment.for_python(sys.executable, commands={"/tool": ["python", "-m", "t"]})

    assert image.path == (str(Path(sys.executable).parent),)
    assert str(Path(sys.executable).resolve().parent.parent) in image.readable
    assert image.commands["/tool"] == (sys.executable, "-m", "t")
    assert image.variables()["PATH"].startswith(image.path[0] + ":/usr/local/sbin")
