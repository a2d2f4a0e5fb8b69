"""Where in the text of a YAML file something stands."""

from collections.abc import Sequence

import yaml

Step = int | str
Path = Sequence[Step]

_NAMES = ("id", "name")


class Places:
    """Lines by path. A path that leads nowhere has the line of what of it is there.

    Args:
        text: valid YAML.
    """

    def __init__(self, text: str) -> None:
        self._root = yaml.compose(text, yaml.SafeLoader)

    def line(self, path: Path) -> int | None:
        """The line, from 1, of what a path leads to; None when nothing of it is there.

        A step is the key of a mapping, or in a sequence the index, or the `id` or `name`, of an
        entry.
        """
        node: yaml.Node | None = self._root
        line = None
        for step in path:
            found = _child(node, step)
            if found is None:
                return line
            mark, node = found
            line = mark + 1
        return line


def _child(node: yaml.Node | None, step: Step) -> tuple[int, yaml.Node] | None:
    """The line, from 0, and the node that a step leads to."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == str(step):
                return key.start_mark.line, value
    if isinstance(node, yaml.SequenceNode):
        for index, entry in enumerate(node.value):
            if index == step or (isinstance(step, str) and step in _names(entry)):
                return entry.start_mark.line, entry
    return None


def _names(entry: yaml.Node) -> list[str]:
    if not isinstance(entry, yaml.MappingNode):
        return []
    return [
        value.value
        for key, value in entry.value
        if key.value in _NAMES and isinstance(value, yaml.ScalarNode)
    ]
