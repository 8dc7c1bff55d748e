"""The inner loop of the matrix product on AArch64 is nearly all arithmetic: runs core/multiply under
qemu-user, which tells each block of instructions and each time that it is entered, and counts. The
blocks that fused multiply-adds (fmla) come from are the inner loop: at least four fifths of its
instructions are such, and they are most of the whole product's."""
import collections
import os
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ["QUERN_MULTIPLY"]
LEAST_SHARE = 0.8
INSTRUCTION = re.compile(r"^0x([0-9a-f]+):\s+[0-9a-f]{8}\s+(\S+)")
ENTERED = re.compile(r"^Trace \d+: 0x[0-9a-f]+ \[[0-9a-f]+/([0-9a-f]+)/")


def run_counted():
    """Blocks by address: their instructions, and how often each was entered."""
    blocks, entered, block = {}, collections.Counter(), None
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        subprocess.run(["qemu-aarch64", "-d", "in_asm,exec,nochain", "-D", log, PROGRAM], check=True, timeout=300)
        with open(log, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("IN:"):
                    block = None
                elif match := INSTRUCTION.match(line):
                    if block is None:
                        block = int(match[1], 16)
                        blocks[block] = []
                    blocks[block].append(match[2])
                elif match := ENTERED.match(line):
                    entered[int(match[1], 16)] += 1
    return blocks, entered


class Instructions(unittest.TestCase):
    def test_inner_loop(self):
        blocks, entered = run_counted()
        fmla = {at: blocks[at].count("fmla") * n for at, n in entered.items() if at in blocks}
        # A loop that is unrolled may be several blocks.
        inner = [at for at, n in fmla.items() if n > 0.1 * sum(fmla.values())]
        arithmetic = sum(fmla[at] for at in inner)
        share = arithmetic / sum(len(blocks[at]) * entered[at] for at in inner)
        kinds = collections.Counter(kind for at in inner for kind in blocks[at])
        print(f"inner loop: {share:.1%} fmla; {dict(kinds)}", file=sys.stderr)
        self.assertGreaterEqual(share, LEAST_SHARE)
        # 4 lanes each; the rest is what does not fill a tile.
        self.assertGreater(arithmetic * 4, 0.9 * 192 * 48 * 128)


if __name__ == "__main__":
    unittest.main()
