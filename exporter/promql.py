"""Parses PromQL that users write: whatever the text is, the answer is a tree or None."""

import re
from typing import Final

import promql_parser
from promql_parser import Expr

MOST_OPERATIONS: Final = 2_000
"""Operations and brackets of one expression; the parser's own stack ends soon after."""

_TEXTS: Final = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`")
_OPERATIONS: Final = re.compile(r"[-+*/%^(=<>]|\b(?:and|or|unless|atan2)\b")


def without_texts(text: str) -> str:
    """Return an expression with nothing left in its texts, and without its comments."""
    return re.sub(r"#[^\n]*", "", _TEXTS.sub('""', text))


def parsed(text: str) -> Expr | None:
    """Return the parsed expression; None where it does not parse, or is far too long to."""
    if len(_OPERATIONS.findall(without_texts(text))) > MOST_OPERATIONS:
        return None
    try:
        return promql_parser.parse(text)
    except ValueError:
        return None
    # A length that is no number makes the parser panic, and a panic is no Exception.
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return None
