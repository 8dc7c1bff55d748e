"""A thousand models made, trained, looked at and dropped: the process grows no more after the first hundred."""
import ctypes
import gc
import os
import sys

import fresh
import numpy as np

FIRST, ALL = 100, 1000


def resident_bytes():
    """Memory of this process that is resident, without what is free: how much of that malloc keeps changes by
    tens of MB from one moment to the next."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main():
    import quern
    x, y = np.zeros((8, 6, 6, 1), np.uint8), np.arange(8) % 2

    def use(i):
        model = quern.Model("mlp", classes=2, input=(6, 6, 1))
        history = model.fit((x, y) if i % 2 else list(zip(x, y)), steps=5, batch=4, threads=1,
                            meter=i % 10 == 0)
        model.predict(x)
        arrays = model.parameters()
        repr(history), repr(model)
        if i % 10 == 0:
            model.plan(batch=4)
            history.report()
        try:
            model.fit((x, y - 1))
        except quern.FormatError:
            pass
        return arrays

    for i in range(FIRST):
        use(i)
    before, objects = resident_bytes(), len(gc.get_objects())
    for i in range(FIRST, ALL):
        use(i)
    grown = resident_bytes() - before
    print(f"{ALL - FIRST} models: {grown / 1024:.0f} KiB more, {len(gc.get_objects()) - objects} objects more")
    # A model here is 600 KB: two that stayed of all would be more.
    assert grown < 1 << 20, grown
    assert len(gc.get_objects()) - objects < 500
    sys.exit(0)


if __name__ == "__main__":
    fresh.enter(main)
