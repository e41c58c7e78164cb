"""What is left of a spend when a part of it is known elsewhere."""

from store.usage import Spend


def less(whole: Spend, part: Spend) -> Spend:
    """`whole` without `part`, nowhere below zero."""
    counts = {
        name: max(0, getattr(whole, name) - getattr(part, name))
        for name in Spend.__struct_fields__
        if name != "unpriced"
    }
    return Spend(**counts, unpriced=whole.unpriced - part.unpriced)
