"""Twenty configurations, each within a control group whose memory limit is the budget and 8 MB: what the
program's code and libraries take. The system ends what takes more. Three of them where nothing is said.

Without --memory a run keeps to what its group leaves: it is planned within that, or refused with the number, and
so is one whose --memory is more than the group has. Data that do not fit are refused before they are read.

Skipped where no control group can be made."""
import gzip
import random
import re
import struct
import subprocess
import unittest
import wave
import zipfile

import language_files
import memory_group
import quern

OVERHEAD = 8 << 20
CONFIGURATIONS = (
    ("lenet5", "--batch", 64), ("dqn", "--net", "mlp", "--data", "cartpole", "--replay", 300,
                                "--fill", 40),
    ("mobilenet-v2", "--batch", 4),
    ("lenet5", "--batch", 7, "--threads", 1), ("lenet5", "--batch", 256, "--accumulate", 2),
    ("mlp", "--batch", 128), ("mlp", "--batch", 32, "--optimizer", "adam"),
    ("squeezenet", "--batch", 8), ("mobilenet-v1", "--batch", 4), ("resnet18", "--batch", 2),
    ("densenet40", "--batch", 2), ("googlenet", "--batch", 1), ("char-cnn", "--batch", 8),
    ("char-lstm", "--batch", 4), ("seq2seq", "--batch", 2, "--hidden", 32),
    ("dcgan", "--batch", 8), ("bert-tiny", "--batch", 4), ("bert-tiny", "--batch", 16),
    ("lenet5", "--batch", 32, "--lora", "rank=2,layers=*"),
    ("lenet5", "--batch", 64, "--freeze", "conv*"))


@unittest.skipUnless(memory_group.can_be_made(), "no control group of memory can be made here")
@unittest.skipIf(quern.SLOW, "an instrumented program takes more")
class MemoryGroup(quern.Case):
    def test_within(self):
        for name, *options in CONFIGURATIONS if quern.ALL else CONFIGURATIONS[:3]:
            with self.subTest(f"{name} {options}"):
                self.check(name, options)

    def check(self, name, options):
        data = () if "--data" in options else ("--data", "synthetic")
        run = ("train", name, *data, *options, "--no-test", "--no-samples", "--steps", 2)
        refused = self.fails(1, *run, "--memory", "64K")
        least = re.search(r"--memory (\d+[KM])", refused.errors).group(1)
        group = memory_group.Group(memory_group.bytes_of(least) + OVERHEAD)
        try:
            process = subprocess.run([quern.QUERN, *map(str, run), "--memory", least, "--save",
                                      "w.st"], cwd=self.folder, env=self.environment, text=True,
                                     capture_output=True, preexec_fn=group.enter)
            self.assertEqual(process.returncode, 0, process.stderr)
            print(f"{name} {options}: {least}, limit reached {group.pressed()} times")
        finally:
            group.close()

    def inside(self, size, *arguments):
        """A run in a group of a size."""
        group = memory_group.Group(memory_group.bytes_of(size))
        try:
            return subprocess.run([quern.QUERN, *map(str, arguments)], cwd=self.folder, env=self.environment,
                                  text=True, capture_output=True, preexec_fn=group.enter)
        finally:
            group.close()

    def refused(self, size, *arguments):
        run = self.inside(size, *arguments)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("too small", run.stderr)
        return run.stderr

    def test_refused(self):
        """Where the system would have ended it."""
        large = ("train", "resnet18", "--data", "synthetic", "--batch", 64, "--steps", 1, "--no-test")
        for more in ((), ("--memory", "4G")):
            said = self.refused("60M", *large, *more)
            self.assertRegex(said, r"control group of 60 MiB.*the minimum is \d+ MiB.*--memory \d+K")

    def test_planned(self):
        """Within the group what is above it otherwise, to the same weights."""
        run = ("train", "mobilenet-v2", "--data", "synthetic", "--batch", 32, "--steps", 2, "--no-test", "--save")
        self.run_quern(*run, "free.st")
        said = self.inside("110M", *run, "within.st")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("planned within", said.stderr)
        self.assertEqual(self.bytes_of("within.st"), self.bytes_of("free.st"))

    def test_devices(self):
        run = self.inside("60M", "devices")
        self.assertIn("at most 60 MiB of memory", run.stdout)

    def make_packed(self):
        """A npz file of some kB that holds 300 MB of zeros."""
        n = 25000

        def header(kind, shape):
            text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
            text += " " * (63 - (10 + len(text)) % 64) + "\n"
            return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
        with zipfile.ZipFile(self.folder / "big.npz", "w", zipfile.ZIP_DEFLATED) as file:
            with file.open("x.npy", "w", force_zip64=True) as array:
                array.write(header("<f4", f"({n}, 3072)"))
                for _ in range(n // 1000):
                    array.write(bytes(1000 * 3072 * 4))
            file.writestr("y.npy", header("<i8", f"({n},)") + bytes(8 * n))

    def test_unread(self):
        """Packed arrays and texts above the budget, in little more memory than that."""
        self.make_packed()
        self.run_quern("train", "mlp", "--data", "synthetic", "--steps", 1, "--no-test", "--input", "1x1x3072", "--save",
                       "w.st")
        self.run_quern("export", "mlp", "--weights", "w.st", "--out", "n.onnx")
        draw = random.Random(1)
        lines = [" ".join(draw.choice(("one", "two", "three", "four")) for _ in range(8)) for _ in range(1000)]
        for name in ("a.txt", "b.txt"):
            (self.folder / name).write_text("\n".join(lines * 300) + "\n")
        for model, data in (("n.onnx", "npz:big.npz"), ("char-lstm", "text:a.txt"), ("seq2seq", "pairs:a.txt,b.txt")):
            with self.subTest(data=data):
                said = self.refused("64M", "train", model, "--data", data, "--steps", 1, "--memory", "20M")
                self.assertIn("--memory", said)

    def make_sounds(self, draw):
        for kind in ("low", "high"):
            (self.folder / "s" / kind).mkdir(parents=True)
            for i in range(6):
                with wave.open(str(self.folder / "s" / kind / f"{i}.wav"), "wb") as sound:
                    sound.setnchannels(1)
                    sound.setsampwidth(2)
                    sound.setframerate(8000)
                    sound.writeframes(draw.randbytes(2 * 8000))

    def make_arrays(self, draw):
        """An ONNX file, and arrays by the names of its inputs."""
        self.run_quern("train", "mlp", "--data", "synthetic", "--steps", 1, "--no-test", "--input", "1x1x12", "--save", "a.st")
        self.run_quern("export", "mlp", "--weights", "a.st", "--out", "a.onnx")
        n = 64
        quern.write_npy(self.folder / "input", "<f4", (n, 1, 1, 12), struct.pack(f"<{12 * n}f", *(draw.random() for _ in range(12 * n))))
        quern.write_npy(self.folder / "y", "<i8", (n,), struct.pack(f"<{n}q", *(i % 10 for i in range(n))))
        with zipfile.ZipFile(self.folder / "a.npz", "w", zipfile.ZIP_DEFLATED) as file:
            for name in ("input", "y"):
                file.write(self.folder / name, f"{name}.npy")

    def test_each_kind_of_data(self):
        """64 MiB are enough for small data of every kind."""
        draw = random.Random(2)
        rows = "".join(f"{draw.random():.4f},{draw.random():.4f},{i % 2}\n" for i in range(200))
        (self.folder / "d.csv").write_text("x,y,label\n" + rows)
        lines = [" ".join(draw.choice(("one", "two", "three")) for _ in range(8)) for _ in range(600)]
        for name in ("a.txt", "b.txt"):
            (self.folder / name).write_text("\n".join(lines) + "\n")
        (self.folder / "t.csv").write_text("text,label\n" + "".join(f"{line},{i % 2}\n" for i, line in enumerate(lines)))
        for kind in ("red", "green"):
            (self.folder / "p" / kind).mkdir(parents=True)
            for i in range(8):
                quern.write_png(self.folder / "p" / kind / f"{i}.png", 28, 28, draw.randbytes(784))
        (self.folder / "d.csv.gz").write_bytes(gzip.compress((self.folder / "d.csv").read_bytes()))
        (self.folder / "labels.csv").write_text("file,label\n" + "".join(f"{kind}/{i}.png,{kind}\n" for kind in ("red", "green")
                                                                        for i in range(8)))
        (self.folder / "m.gguf").write_bytes(language_files.gguf(language_files.LLAMA | language_files.TOKENIZER,
                                                                 language_files.tame_tensors()))
        self.make_sounds(draw)
        self.make_arrays(draw)
        for model, data, *more in (
                ("mlp", "csv:d.csv.gz"), ("lenet5", "images:p,labels.csv", "--batch", 4),
                ("m.gguf", "text:a.txt", "--length", 24, "--batch", 3, "--lora", "rank=2"),
                ("a.onnx", "npz:a.npz", "--batch", 4), ("mlp", "sounds:s", "--input", "64x1x32", "--batch", 4), ("mlp", "csv:d.csv"), ("lenet5", self.make_images(64)), ("lenet5", "images:p", "--batch", 4),
                ("char-lstm", "text:a.txt", "--batch", 4, "--hidden", 64), ("mlp", "texts:t.csv", "--input", "32x1x32"),
                ("seq2seq", "pairs:a.txt,b.txt", "--batch", 2, "--hidden", 32), ("lenet5", "synthetic"),
                ("dqn", "cartpole", "--net", "mlp", "--replay", 300, "--fill", 40)):
            with self.subTest(data=data):
                run = self.inside("64M", "train", model, "--data", data, *more, "--steps", 2, "--no-test",
                                  "--no-samples", "--save", "k.st")
                self.assertEqual(run.returncode, 0, run.stderr)


@unittest.skipUnless(memory_group.can_be_made(memory_group.TimeGroup), "no control group of processor time can be made here")
class Time(quern.Case):
    def test_quota(self):
        """A quota of one processor's time is said, and is the number of threads."""
        group = memory_group.TimeGroup(1)
        try:
            shown = subprocess.run([quern.QUERN, "devices"], text=True, capture_output=True, check=True, preexec_fn=group.enter)
            process = self.start("train", "mlp", "--data", "synthetic", "--steps", 1, "--no-test", "--no-save", "--json",
                                 preexec_fn=group.enter)
            output, errors = process.communicate()
        finally:
            group.close()
        self.assertIn("the time of 1 processors", shown.stdout)
        self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(quern.Run(0, output, errors).events[-1]["threads"], 1)


if __name__ == "__main__":
    unittest.main()
