"""The column `tools` of a golden row: the tool calls that an answer needs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from ragstone.errors import expected
from ragstone.golden.cells import (
    CellError,
    parse_structure,
    short_repr,
    to_items,
    validate_text,
)
from ragstone.golden.sample import ExpectedCall

MAX_CALLS = 100
"""Maximum number of tool calls that one sample expects."""

_ToolName = Annotated[str, Field(min_length=1, max_length=200)]


class _Call(BaseModel):
    model_config = ConfigDict(
        extra="forbid", defer_build=True, str_strip_whitespace=True
    )

    name: _ToolName | None = Field(None, validation_alias=AliasChoices("name", "tool"))
    any_of: Annotated[list[_ToolName], Field(min_length=1)] | None = None
    arguments: Annotated[dict[str, Any] | None, BeforeValidator(parse_structure)] = (
        Field(
            None, validation_alias=AliasChoices("arguments", "args", "input_parameters")
        )
    )
    match: Literal["subset", "exact"] = "subset"
    tolerance: float = Field(0.0, ge=0, allow_inf_nan=False)
    # Fields of DeepEval's and ragas' calls, which are not compared.
    description: Any = None
    reasoning: Any = None
    output: Any = None
    type: Any = None
    id: Any = None


def to_expected_calls(value: object) -> tuple[ExpectedCall, ...]:
    """Return the tool calls in `value`: names of tools, or objects with the fields of
    `ExpectedCall`. Raises CellError."""
    items = to_items(parse_structure(value), split_bars=True, split_commas=True)
    calls = tuple(map(_to_expected_call, items))
    if len(calls) > MAX_CALLS:
        raise CellError(
            f"contains {len(calls):,} tool calls; at most {MAX_CALLS} are allowed"
        )
    return calls


def _to_expected_call(item: object) -> ExpectedCall:
    try:
        fields = {"name": item} if isinstance(item, str) else item
        call = _Call.model_validate(fields)
    except ValidationError as error:
        details = error.errors()[0]
        key = ".".join(map(str, details["loc"]))
        shown_call = short_repr(item)
        expectation = expected(details)
        raise CellError(
            f"contains the tool call {shown_call}: {key} {expectation}"
        ) from None
    has_name = call.name is not None
    has_any_of = call.any_of is not None
    if has_name == has_any_of:
        raise CellError(
            f"contains the tool call {short_repr(item)}, expected either name or any_of"
        )
    names = call.any_of or [call.name or ""]
    return ExpectedCall(
        names=tuple(map(validate_text, names)),
        arguments=call.arguments,
        match=call.match,
        tolerance=call.tolerance,
    )
