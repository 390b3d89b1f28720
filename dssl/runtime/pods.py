"""What descriptions of pods share, whoever starts them."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, field_validator

from ..base.errors import SpecError, require

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")]


class PodFields(BaseModel):
    """Fields of the descriptions of pods that mount one volume."""

    image: str = Field(pattern=r"^[\w][\w.:/@-]*$", description="of all pods, best by digest: NAME@sha256:...")
    claim: Name = Field(description="PersistentVolumeClaim with the workspace; ReadWriteMany where there is more than "
                                    "one node")
    mount: Path = Field(description="where the pods, and the machine that submits, mount it")
    namespace: Name = "default"
    user: int = Field(default=1000, ge=1, description="number of the user, and of the group, that the processes have")
    labels: dict[str, str] = Field(default={}, description="of the objects, such as that of a queue")
    node_selector: dict[str, str] = Field(default={}, description="labels of the nodes to use")
    secrets: list[Name] = Field(default=[], description="names of Secrets whose keys become variables of the pods")
    pull_secrets: list[Name] = Field(default=[], description="names of Secrets that open the image's registry")
    priority_class: Name | None = None

    @field_validator("mount")
    @classmethod
    def _is_absolute(cls, mount: Path) -> Path:
        require(mount.is_absolute() and mount != Path("/"), f"mount: {mount}", error=SpecError,
                why="a volume is mounted at an absolute path below /", fix="write such as /work")
        return mount
