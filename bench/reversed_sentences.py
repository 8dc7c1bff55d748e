#!/usr/bin/python3
"""Writes two parallel files to learn to reverse with: random sentences of eight words, and the same
backwards. Usage: reversed_sentences.py COUNT SOURCE TARGET [SEED]"""

import random
import sys

WORDS = ("alfa bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike november "
         "oscar papa quebec romeo sierra tango uniform victor whiskey xray yankee zulu").split()
LENGTH = 8


def main():
    count, source, target = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    generator = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    with open(source, "w") as forwards, open(target, "w") as backwards:
        for _ in range(count):
            words = generator.choices(WORDS, k=LENGTH)
            print(*words, file=forwards)
            print(*reversed(words), file=backwards)


if __name__ == "__main__":
    main()
