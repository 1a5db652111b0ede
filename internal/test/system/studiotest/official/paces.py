"""How far a script lets runs proceed: graphs_paced.go explains it.

This is a module of its own, because the server loads the file of its routes and that of its graphs separately.
"""

import asyncio
from collections import Counter

permits: Counter = Counter()


async def permit(pace: str):
    while permits[pace] < 1:
        await asyncio.sleep(0.01)
    permits[pace] -= 1
