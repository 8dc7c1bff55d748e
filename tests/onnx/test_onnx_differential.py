"""A few cases of differential.py, always the same, by the exporter of Debian's PyTorch: outputs and three steps of training."""
import logging
import os
import sys
import tempfile

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import differential  # noqa: E402

FIRST, COUNT, LEAST_RIGHT = 1000, 80, 70


def main():
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    counts, wrong = {}, []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(FIRST, FIRST + COUNT):
            name, verdict, said = differential.try_module(os.environ["QUERN_TOOLS"], number, "classic", folder)
            counts[verdict] = counts.get(verdict, 0) + 1
            if verdict not in ("right", "impossible", "not exported"):
                wrong.append(f"{number} {name}: {verdict}: {said}")
    print(counts)
    assert not wrong, "\n".join(wrong)
    assert counts["right"] >= LEAST_RIGHT, counts


if __name__ == "__main__":
    main()
