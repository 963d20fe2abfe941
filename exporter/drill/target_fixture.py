"""The prompt that a drill sends to a real gateway: neutral, the same each time, of known length."""

from itertools import chain, cycle, islice
from typing import Final

_TEXT: Final = (
    "The river runs from the hills to the sea, and on its way it turns the wheels of small mills. "
    "In the spring the water is high and the boats go fast. "
    "In the summer it is low, and the people walk over the stones from one side to the other. "
    "Each year the town makes a list of all that the river has brought. "
)
_TASK: Final = (
    "Write the text above once more, word for word, from start to end. "
    "Then write it again, and do not stop until you are told to stop."
)
"""Asks for an answer that is longer than any drill: nothing is proved by one that has ended."""

_MARKS: Final = ",."
_FEWEST_BYTES: Final = 2


def prompt_of(tokens: int) -> str:
    """Return a prompt of so many words and marks, each a token in the usual vocabularies.

    So the number is right to within some percent, whichever model reads it; a prompt is never
    shorter than the task that ends it.
    """
    task = _pieces(_TASK)
    text = islice(cycle(_pieces(_TEXT)), max(0, tokens - len(task) - 1))
    return "".join(chain(text, ".", task)).strip()


def fixture_tokens(tokens: int) -> int:
    """Return how many tokens ``prompt_of`` really makes of a number: its task is always whole."""
    return max(tokens, len(_pieces(_TASK)) + 1)


def tokens_of(prompt: str) -> int:
    """Return how many tokens a prompt of somebody else's may have: rather too many than too few."""
    return -(-len(prompt.encode()) // _FEWEST_BYTES)


def _pieces(text: str) -> list[str]:
    """Return words, with the blank before them, and marks."""
    pieces: list[str] = []
    for word in text.split():
        bare = word.rstrip(_MARKS)
        pieces += [f" {bare}", *word[len(bare) :]]
    return pieces
