"""Something to review: it has faults on purpose."""

from mail import send


def checkout(basket: dict[str, int], prices: dict[str, int]) -> int:
    total = 0
    for item, count in basket.items():
        try:
            total += prices[item] * count
        except Exception:
            pass  # TODO: an item without a price is free now
    send("orders@shop.example", f"sold for {total}")
    return total
