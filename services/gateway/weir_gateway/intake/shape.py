"""Values in errors without their content: no error quotes a prompt."""


class Shape:
    """Describes a value by type and size; its `repr` is the description."""

    def __init__(self, value: object) -> None:
        self._text = _described(value)

    def __repr__(self) -> str:
        return self._text


def _described(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return f"a text of {len(value)} characters"
    if isinstance(value, list | tuple):
        return f"an array of {len(value)}"
    if isinstance(value, dict):
        return f"an object with {len(value)} fields"
    return type(value).__name__
