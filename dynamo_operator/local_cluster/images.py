"""What plays a container image on this machine: an environment for its processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class UnknownImageError(Exception):
    """No environment plays that image; the text names those that are known."""


@dataclass(frozen=True, slots=True)
class ImageEnvironment:
    """The rootless description of an image: where its commands are and what they need to read.

    Args:
        path: directories put before the standard PATH.
        entrypoint: what runs when the container names no command.
        commands: first words that are not found on this machine, such as `/dgdr-run-publisher`,
            and the words that they stand for.
        environment: variables that the image sets; the container's own win.
        readable: files and directories that the processes must be able to read, wherever they lie.
        user: uid when the Pod asks for none; None is the agent's own user.
        working_directory: where commands start when the container does not say.
    """

    path: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    readable: tuple[str, ...] = ()
    user: int | None = None
    working_directory: str = "/"

    @classmethod
    def for_python(
        cls,
        interpreter: str | Path,
        *,
        commands: Mapping[str, Sequence[str]] | None = None,
        environment: Mapping[str, str] | None = None,
        readable: Sequence[str | Path] = (),
        user: int | None = None,
    ) -> ImageEnvironment:
        """Describe a Python installation or virtual environment by its interpreter.

        The word `python` in `commands` stands for the interpreter.
        """
        binary = Path(interpreter).absolute()
        prefix = binary.parent.parent
        installation = binary.resolve().parent.parent
        return cls(
            path=(str(binary.parent),),
            commands={
                name: tuple(str(binary) if word == "python" else word for word in words)
                for name, words in (commands or {}).items()
            },
            environment={"PYTHONUNBUFFERED": "1", **(environment or {})},
            readable=tuple(dict.fromkeys(map(str, (prefix, installation, *readable)))),
            user=user,
        )

    def command_line(self, command: Sequence[str], args: Sequence[str]) -> tuple[str, ...]:
        """Join a container's command and args with what the image says.

        Raises:
            ValueError: neither names a command.
        """
        words = [*(command or self.entrypoint), *args]
        if not words:
            raise ValueError("no command specified")
        return (*self.commands.get(words[0], (words[0],)), *words[1:])

    def variables(self) -> dict[str, str]:
        """The environment that a process starts from."""
        return {
            "HOME": "/root" if self.user == 0 else "/",
            **self.environment,
            "PATH": ":".join((*self.path, _STANDARD_PATH)),
        }


class ImageMap:
    """The images that this machine can play.

    Example:
        >>> images = ImageMap({"lab/planner:1": ImageEnvironment(path=("/opt/planner/bin",))})
        >>> images.resolve("lab/planner:1").path
        ('/opt/planner/bin',)
    """

    def __init__(self, environments: Mapping[str, ImageEnvironment]) -> None:
        self._environments = dict(environments)

    @property
    def references(self) -> tuple[str, ...]:
        """The known image references, sorted."""
        return tuple(sorted(self._environments))

    def resolve(self, reference: str) -> ImageEnvironment:
        """Return the environment of an image.

        Raises:
            UnknownImageError: no environment plays it.
        """
        environment = self._environments.get(reference)
        if environment is None:
            known = ", ".join(self.references) or "none"
            raise UnknownImageError(
                f'image "{reference}" is played by no environment here; known images: {known}'
            )
        return environment
