"""What every section of a pipeline file is: fields that are known, and no boolean where a number is meant."""

from typing import Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

MOST_PREDICTIONS = 10_000_000  # rows of a source that are all predicted without being asked for


def _takes_booleans(annotation: Any) -> bool:
    """Return whether a boolean, anything, or a section is among the values of a type."""
    section = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return annotation in (bool, Any) or isinstance(annotation, bool) or section or any(
        map(_takes_booleans, get_args(annotation)))


def require_no_boolean(annotation: Any, value: Any) -> None:
    """Raise ValueError if a value is or holds a boolean where the type has none: pydantic would take it as 0 or 1."""
    if _takes_booleans(annotation):
        return
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, bool):
            raise ValueError(f"Input should be no boolean; write {int(part)} if a number is meant, "
                             f'"{str(part).lower()}" if a text')
        pending += part.values() if isinstance(part, dict) else part if isinstance(part, (list, tuple)) else ()


class SpecSection(BaseModel):
    """A section of the spec; a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    one_of: ClassVar[tuple[str, ...]] = ()  # keys of which exactly one is given

    @field_validator("*", mode="before")
    @classmethod
    def _no_boolean_is_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        require_no_boolean(cls.model_fields[str(info.field_name)].annotation, value)
        return value

    @model_validator(mode="after")
    def _one_is_given(self) -> Self:
        if self.one_of and sum(getattr(self, key) not in (None, False) for key in self.one_of) != 1:
            raise ValueError(f"set exactly one of {', '.join(self.one_of[:-1])} and {self.one_of[-1]}")
        return self


class PredictionsSpec(SpecSection):
    """The table of what is predicted of every row of the source, beside the report."""

    format: Literal["auto", "csv", "parquet", "none"] = Field(
        default="auto", description=f"of predictions_all; auto writes CSV of up to {MOST_PREDICTIONS:,} rows, and "
                                    "says so where there are more and none are predicted; csv and parquet predict any "
                                    "number of rows, none leaves it out")
    safe_csv: bool = Field(default=False, description="whether text in it that a spreadsheet would take for a formula "
                                                      "(it begins with =, +, - or @) gets an apostrophe before it")

    @property
    def most(self) -> int | None:
        """Return the number of rows up to which all are predicted; None for any number."""
        return {"none": 0, "auto": MOST_PREDICTIONS}.get(self.format)

    @property
    def ending(self) -> str:
        """Return the format of the file."""
        return "parquet" if self.format == "parquet" else "csv"
