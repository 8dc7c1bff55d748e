#!/usr/bin/python3
"""What training shows on a terminal: a line that stays one line at every width, also when the window is
made narrower or wider meanwhile, and plain lines where the terminal cannot move. A screen that wraps and
reflows as a terminal does says what a person would see."""
import fcntl
import os
import re
import struct
import subprocess
import termios
import unittest

import quern

STATE = r"loss [0-9.]+"


class Screen:
    """The rows of a terminal that lays long lines anew when its width changes."""

    def __init__(self, columns):
        self.columns, self.lines, self.at = columns, [""], 0

    def _wrapped(self):
        """(line, first column) of every row."""
        return [(i, begin) for i, line in enumerate(self.lines)
                for begin in range(0, max(len(line), 1), self.columns)]

    def rows(self):
        return [self.lines[i][begin:begin + self.columns] for i, begin in self._wrapped()]

    def _row_of_cursor(self):
        """The last line's row where the cursor is; a full row keeps it."""
        rows = [begin for i, begin in self._wrapped() if i == len(self.lines) - 1]
        return max(begin for begin in rows if begin <= max(self.at - 1, 0) or begin == 0)

    def put(self, text):
        for token in re.findall(r"\x1b\[(?:\d*)[A-Z]|\r|\n|[^\x1b\r\n]+", text):
            getattr(self, {"\r": "_return", "\n": "_feed"}.get(
                token, "_move" if token[0] == "\x1b" else "_write"))(token)

    def _return(self, _):
        self.at = self._row_of_cursor()

    def _feed(self, _):
        self.lines.append("")
        self.at = 0

    def _move(self, token):
        if token[-1] == "A":
            self.at -= self.columns * int(token[2:-1])
            assert self.at >= 0, "moved up into what is no part of the line"
        elif token[-1] == "J":
            self.lines[-1] = self.lines[-1][:self.at]
        elif token[-1] == "K":  # the rest of this row
            end = (self.at // self.columns + 1) * self.columns
            self.lines[-1] = self.lines[-1][:self.at] + self.lines[-1][end:]

    def _write(self, text):
        line = self.lines[-1].ljust(self.at)
        self.lines[-1] = line[:self.at] + text + line[self.at + len(text):]
        self.at += len(text)


class Terminal(quern.Case):
    def setUp(self):
        super().setUp()
        missing = quern.missing_terminal()
        if missing:
            self.skipTest(missing)
        self.data = self.make_images()

    def run_on(self, widths, kind="xterm"):
        """Trains on a terminal that takes each of the widths for a while; returns the screen, and all that
        was ever seen of the moving line, with the width it had then."""
        controller, terminal = os.openpty()
        self.set_width(controller, widths[0])
        process = subprocess.Popen(
            [quern.QUERN, "train", "lenet5", "--data", self.data, "--batch", "16", "--epochs", "400"],
            cwd=self.folder, stdout=terminal, stderr=terminal, env=dict(self.environment, TERM=kind))
        os.close(terminal)
        screen, seen = Screen(widths[0]), []
        for width in widths:
            self.set_width(controller, width)
            screen.columns, n_seen = width, len(seen)
            while len(seen) < n_seen + 3:  # redrawn three times at this width
                screen.put(self.read(controller))
                if self.shows_progress(screen, kind):
                    seen.append((width, screen.rows()))
        process.terminate()
        while part := self.read(controller):
            screen.put(part)
        os.close(controller)
        process.wait()
        return screen, seen

    @staticmethod
    def shows_progress(screen, kind):
        if kind == "dumb":  # plain lines: the first may come long after the header
            return any(line.startswith("epoch ") for line in screen.lines)
        return " left" in screen.lines[-1]

    @staticmethod
    def set_width(controller, width):
        fcntl.ioctl(controller, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))

    @staticmethod
    def read(controller):
        try:
            return os.read(controller, 65536).decode()
        except OSError:
            return ""

    def check_one_line(self, rows):
        """One row, the last, moves; it is not cut within a number that matters."""
        moving = [row for row in rows if re.search(r"\d:\d\d left", row)]
        self.assertLessEqual(len(moving), 1, rows)

    def test_widths(self):
        for width in (30, 60, 80, 120):
            with self.subTest(width=width):
                _, seen = self.run_on([width])
                for _, rows in seen:
                    self.check_one_line(rows)
                line = next(row for _, rows in reversed(seen) for row in rows if "left" in row)
                self.assertLess(len(line.rstrip()), width)
                self.assertRegex(line, r"^epoch \d+/400 ")
                self.assertEqual(bool(re.search(STATE, line)), width >= 60, line)
                self.assertEqual("samples/s" in line, width >= 120, line)
                self.assertEqual("[" in line, width >= 80, line)

    def test_resize(self):
        _, seen = self.run_on([120, 60, 100, 40, 80])
        for _, rows in seen:
            self.check_one_line(rows)
        self.assertTrue(any("epoch" in row for row in seen[-1][1]))

    def test_dumb(self):
        screen, _ = self.run_on([80], kind="dumb")
        text = "\n".join(screen.lines)
        self.assertNotIn("[#", text)
        self.assertRegex(text, r"epoch \d+(/400   step|: train loss)")


if __name__ == "__main__":
    unittest.main()
