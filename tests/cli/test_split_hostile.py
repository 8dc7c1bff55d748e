#!/usr/bin/python3
"""quern split serve among strangers: whatever they send, an honest device trains on, its halves stay, and memory is bounded."""
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import numpy as np

QUERN = os.environ["QUERN"]
TRAIN = ["--model", "mlp", "--data", "npy:x.npy,y.npy", "--holdout", "0.25", "--batch", "8", "--lr", "0.1", "--cut", "fc1"]
STEP = 3
SAVE = 6


def message(kind, body=b""):
    return b"QNL2" + struct.pack("<IQ", kind, len(body)) + body


class Relay(threading.Thread):
    """A connection through which all goes, and which keeps it."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.to = port
        self.sent, self.received = bytearray(), bytearray()

    def pump(self, source, sink, kept):
        try:
            while data := source.recv(65536):
                kept.extend(data)
                sink.sendall(data)
        except OSError:
            pass
        for end in source, sink:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def run(self):
        device, _ = self.listener.accept()
        peer = socket.create_connection(("127.0.0.1", self.to))
        back = threading.Thread(target=self.pump, args=(peer, device, self.received))
        back.start()
        self.pump(device, peer, self.sent)
        back.join()
        for end in device, peer, self.listener:
            end.close()


class Hostile(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="quern-split-"))
        self.addCleanup(shutil.rmtree, self.folder)
        draw = np.random.default_rng(2)
        y = (np.arange(240) % 3).astype(np.int32)
        x = draw.integers(0, 100, (240, 12, 12, 1)).astype(np.uint8)
        x[np.arange(240), y * 4] += 120
        np.save(self.folder / "x.npy", x)
        np.save(self.folder / "y.npy", y)

    def serve(self, *options):
        peer = subprocess.Popen([QUERN, "split", "serve", "--listen", "0", "--threads", "1", *options], cwd=self.folder,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(peer.stdout.close)
        self.addCleanup(peer.wait)
        self.addCleanup(peer.kill)
        return peer, int(re.search(r"port (\d+)", peer.stdout.readline())[1])

    def train(self, port, *options, status=0):
        done = subprocess.run([QUERN, "split", "train", "--peer", f"localhost:{port}", *TRAIN, *options], cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def connect(self, port, data=b""):
        stranger = socket.create_connection(("127.0.0.1", port))
        self.addCleanup(stranger.close)
        try:
            stranger.sendall(data)
        except OSError:
            pass
        return stranger

    def end(self, peer):
        """One signal is enough."""
        peer.send_signal(signal.SIGTERM)
        peer.wait(timeout=60)

    def peak(self, peer):
        return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{peer.pid}/status").read_text())[1]) * 1024

    def hello(self, port_of_real):
        """What an honest device says first."""
        relay = Relay(port_of_real)
        relay.start()
        self.train(relay.port, "--epochs", "1", "--save", "first.st")
        relay.join(timeout=30)
        length = struct.unpack("<Q", relay.sent[8:16])[0]
        return bytes(relay.sent), bytes(relay.sent[16:16 + length])

    def test_strangers(self):
        peer, port = self.serve("--save", "b.st", "--memory", "64M", "--devices", "2")
        whole, text = self.hello(port)
        kept = (self.folder / "b.st").read_bytes()
        mine = re.search(rb"run ([0-9a-f]{32})", text)[1]
        other = text.replace(mine, b"f" * 32)
        greedy = re.sub(rb"\noutputs \d+", b"\noutputs 16000000", other.replace(b"saves 1", b"saves 0"))
        draw = random.Random(5)
        attacks = [draw.randbytes(draw.randrange(1, 4000)) for _ in range(20)]
        attacks += [whole[:draw.randrange(len(whole))] for _ in range(10)]  # a replay, cut off
        attacks += [whole, message(1, other) + message(SAVE) * 2, message(1, greedy), message(SAVE) * 2,
                    message(1, text) + message(SAVE) * 2,  # a replay of its run before the first step
                    message(1, text)[:40], b"QNL2" + struct.pack("<IQ", 1, 2 ** 62), message(1, b"\xff" * 2000)]
        strangers = [self.connect(port, data) for data in attacks]
        idle = [self.connect(port) for _ in range(40)]
        stop = threading.Event()
        drip = threading.Thread(target=self.drip, args=(port, stop))
        drip.start()
        self.train(port, "--epochs", "2", "--resume", "first.st", "--save", "f.st")  # gets on among them all
        stop.set()
        drip.join()
        self.assertNotEqual((self.folder / "b.st").read_bytes(), kept)
        self.assertLess(self.peak(peer), (64 + 96) << 20)
        self.assertIsNone(peer.poll())
        for stranger in strangers + idle:
            stranger.close()
        self.join("f.st", "b.st")
        self.end(peer)

    def drip(self, port, stop):
        """A byte at a time, on connections that are made anew when they are given up."""
        ends = []
        while not stop.wait(0.05):
            while len(ends) < 8:
                try:
                    ends.append(socket.create_connection(("127.0.0.1", port)))
                except OSError:
                    return
            for end in list(ends):
                try:
                    end.sendall(b"Q")
                except OSError:
                    ends.remove(end)
                    end.close()
        for end in ends:
            end.close()

    def join(self, front, back, status=0):
        done = subprocess.run([QUERN, "split", "join", front, back, "--out", "whole.st"], cwd=self.folder, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, status, done.stderr)

    def test_two_devices(self):
        (self.folder / "backs").mkdir()
        peer, port = self.serve("--save", "backs", "--devices", "2")
        command = [QUERN, "split", "train", "--peer", f"localhost:{port}", *TRAIN, "--epochs", "3", "--save"]
        both = [subprocess.Popen([*command, name], cwd=self.folder, stdout=subprocess.DEVNULL) for name in ("one.st", "two.st")]
        for device in both:
            self.assertEqual(device.wait(timeout=120), 0)
        backs = sorted(path.name for path in (self.folder / "backs").glob("*.safetensors"))
        self.assertEqual(len(backs), 2)
        fits = 0
        for back in backs:
            done = subprocess.run([QUERN, "split", "join", "one.st", f"backs/{back}", "--out", f"whole-{back}"], cwd=self.folder,
                                  stderr=subprocess.PIPE, text=True, check=False)
            fits += done.returncode == 0
            self.assertTrue(done.returncode == 0 or "different runs" in done.stderr, done.stderr)
        self.assertEqual(fits, 1)
        self.end(peer)

    def test_one_file_is_one_run(self):
        peer, port = self.serve("--save", "b.st")
        self.train(port, "--epochs", "1", "--save", "f.st")
        kept = (self.folder / "b.st").read_bytes()
        self.assertIn("another run", self.train(port, "--epochs", "1", "--save", "g.st", status=1))
        self.assertFalse((self.folder / "g.st").exists())
        self.assertEqual((self.folder / "b.st").read_bytes(), kept)
        out = self.train(port, "--epochs", "2", "--resume", "f.st", "--save", "f.st", "--lr", "0.2", status=2)
        self.assertIn('"rate"', out)
        self.end(peer)

    def test_key(self):
        for name in "key", "wrong":
            subprocess.run([QUERN, "split", "key", "--out", name], cwd=self.folder, check=True, stdout=subprocess.DEVNULL)
        self.assertEqual((self.folder / "key").stat().st_mode & 0o777, 0o600)
        peer, port = self.serve("--save", "b.st", "--key", "key")
        relay = Relay(port)
        relay.start()
        self.train(relay.port, "--epochs", "1", "--save", "f.st", "--key", "key")
        relay.join(timeout=30)
        for kept in relay.sent, relay.received:
            self.assertGreater(len(kept), 1000)
            for plain in b"model mlp", b"outputs ", b"schedule-steps", b"QNL2\5\0\0\0":  # too long to come by chance
                self.assertNotIn(plain, kept)
        kept = (self.folder / "b.st").read_bytes()
        replay = self.connect(port, bytes(relay.sent))
        replay.settimeout(30)
        try:
            while replay.recv(65536):
                pass  # until it is given up
        except ConnectionResetError:
            pass
        self.assertIn("key", self.train(port, "--epochs", "2", "--resume", "f.st", status=1))
        self.assertIn("key", self.train(port, "--epochs", "2", "--resume", "f.st", "--key", "wrong", status=1))
        self.assertEqual((self.folder / "b.st").read_bytes(), kept)
        self.train(port, "--epochs", "2", "--resume", "f.st", "--save", "f.st", "--key", "key")
        self.join("f.st", "b.st")
        self.end(peer)

    def test_refused(self):
        def fails(*words):
            done = subprocess.run([QUERN, "split", *words], cwd=self.folder, capture_output=True, text=True, check=False, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            return done.stderr

        self.assertIn("--key", fails("serve", "--listen", "*:0"))
        self.assertIn("--key", fails("train", "--peer", "192.0.2.1:7000", *TRAIN))
        self.assertIn("means nothing", fails("serve", "--lr", "0.1"))
        self.assertIn("means nothing", fails("join", "a", "b", "--out", "c", "--batch", "3"))
        (self.folder / "open").write_text("0" * 64)
        (self.folder / "open").chmod(0o644)
        self.assertIn("chmod 600", fails("serve", "--listen", "*:0", "--key", "open"))
        subprocess.run([QUERN, "split", "key", "--out", "key"], cwd=self.folder, check=True, stdout=subprocess.DEVNULL)
        done = subprocess.run([QUERN, "split", "key", "--out", "key"], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)

    def test_signal_while_waiting(self):
        for one in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
            peer, port = self.serve()
            stranger = self.connect(port, b"QN")
            peer.send_signal(one)
            peer.wait(timeout=60)
            stranger.close()


if __name__ == "__main__":
    unittest.main()
