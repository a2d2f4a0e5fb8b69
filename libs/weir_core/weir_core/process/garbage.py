"""What the garbage collector need not look at, and how often it looks at the rest."""

import gc

_YOUNG, _MIDDLE, _OLD = 5_000, 5, 10


def keep_what_is_there() -> None:
    """Takes all present objects for ones that stay; call it once, when a process has started.

    A full collection looks through every object that is not one of them, and stops the event
    loop meanwhile. Modules, classes and settings are some 200,000. They are freed all the same
    when nothing refers to them.
    """
    gc.collect()
    gc.freeze()


def collect_seldom() -> None:
    """Looks through young objects at every 5,000th that stays, not at every 700th.

    A few requests at once hold more than 700 objects, all of which go without the collector.
    """
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
