"""Help, suggestions, exit statuses, the manual page: all that needs no training."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import quern

SOURCE = pathlib.Path(os.environ.get("QUERN_SOURCE", pathlib.Path(__file__).parents[2]))
COMMANDS = ["models", "train", "plan", "study", "evaluate", "convert", "predict", "devices", "help", "version"]
TRAIN_OPTIONS = """epochs steps batch optimizer lr momentum nesterov weight-decay schedule warmup
    schedule-steps clip-norm accumulate label-smoothing augment no-shuffle input classes threads
    seed save checkpoint-every resume override json data freeze train-only lr-for lora head load""".split()
MODELS = "mlp lenet5 alexnet vgg11 vgg16 resnet18 resnet50 mobilenet-v1 mobilenet-v2".split()


class Help(quern.Case):
    def test_overview(self):
        for arguments in (["help"], ["--help"], []):
            output = self.run_quern(*arguments).output
            for command in COMMANDS:
                self.assertIn(f"  {command} ", output)

    def test_every_command(self):
        for command in COMMANDS:
            output = self.run_quern(command, "--help").output
            self.assertTrue(output.startswith(f"usage: quern {command}"))
            self.assertEqual(output, self.run_quern("help", command).output)
            self.assertLessEqual(max(map(len, output.splitlines())), 101)

    def test_no_option_comes_twice(self):
        """Rows of shared lists and a command's own are one table."""
        overview = self.run_quern("help").output
        commands = re.findall(r"^  (\w+) +[A-Z]", overview, re.M)
        self.assertLessEqual(set(COMMANDS), set(commands))
        for command in commands:
            options = re.findall(r"^  --([\w-]+)", self.run_quern(command, "--help").output, re.M)
            self.assertEqual(sorted(options), sorted(set(options)), command)

    def test_train_options(self):
        output = self.run_quern("train", "--help").output
        for option in TRAIN_OPTIONS:
            self.assertIn(f"  --{option}", output)

    def test_groups(self):
        """The common options come first, and every option is in a group."""
        output = self.run_quern("train", "--help").output
        self.assertLess(output.index("Options that most runs need:\n  --data DATA"), output.index("Optimiser:"))
        self.assertNotIn("Further options", output)
        self.assertLess(len(re.findall(r"^  --", output.split("\n\n")[-7], re.M)), 16)

    def test_completion(self):
        """What is installed is what is printed; bash completes commands, models, options and choices."""
        for shell, name in (("bash", "quern.bash"), ("zsh", "_quern"), ("fish", "quern.fish")):
            printed = self.run_quern("help", "--completion", shell).output
            path = SOURCE / "share/completions" / name
            self.assertEqual(printed, path.read_text(), f"run: quern help --completion {shell} > {path}")
            if shutil.which(shell) and shell != "bash":
                subprocess.run([shell, "-n", path], check=True)
        for typed, wanted in ((["ev"], "evaluate"), (["train", "lene"], "lenet5"), (["train", "lenet5", "--fre"], "--freeze"),
                              (["train", "lenet5", "--optimizer", "adamw"], "adamw"), (["train", "x", "--no-te"], "--no-test")):
            words = " ".join(["quern", *typed])
            script = (f'source "$1"; COMP_WORDS=({words}); COMP_CWORD={len(typed)}; _quern; echo "${{COMPREPLY[*]}}"')
            done = subprocess.run(["bash", "-c", script, "bash", SOURCE / "share/completions/quern.bash"],
                                  capture_output=True, text=True, check=True)
            self.assertIn(wanted, done.stdout.split(), typed)

    def test_recipe(self):
        output = self.run_quern("train", "lenet5", "--help").output
        self.assertIn("(default: 64, lenet5's recipe)", output)

    def test_version(self):
        self.assertRegex(self.run_quern("version").output, r"^quern \d+\.\d+\.\d+\n$")
        self.assertEqual(self.run_quern("--version").output, self.run_quern("version").output)

    def test_manual_page(self):
        printed = self.run_quern("help", "--man").output
        kept = (SOURCE / "docs/quern.1").read_text()
        self.assertEqual(printed, kept, "run: quern help --man > docs/quern.1")

    def test_manual_page_is_clean(self):
        try:
            checked = subprocess.run(["man", "--warnings", "-l", "-Tutf8", "-Z",
                                      str(SOURCE / "docs/quern.1")], capture_output=True,
                                     text=True)
        except FileNotFoundError:
            self.skipTest("there is no man")
        self.assertEqual(checked.stderr, "")


class WrongUsage(quern.Case):
    def test_names(self):
        self.fails(2, "trian", says=["unknown command trian", "did you mean train?"])
        self.fails(2, "xyzzyplugh", says=["unknown command"])
        self.fails(2, "help", "modles", says=["models"])
        self.fails(2, "train", "lenet6", "--data", "synthetic", says=["lenet6", "lenet5"])
        self.fails(2, "train", "lenet5", "--epohcs", "3",
                   says=["unknown option --epohcs; did you mean --epochs?"])
        self.fails(2, "train", "lenet5", "--no-shufle", says=["unknown option --no-shufle"])
        self.fails(2, "evaluate", "lenet5", "--wieghts", "f", says=["--weights"])
        self.fails(2, "train", "lenet5", "-x", says=["-x"])

    def test_values(self):
        for option, value in [("epochs", "0"), ("epochs", "3x"), ("epochs", "-1"), ("batch", "1e3"),
                              ("lr", "fast"), ("lr", "nan"), ("lr", "-0.1"), ("momentum", "1"),
                              ("optimizer", "adamax"), ("schedule", "linear"), ("seed", "-1"),
                              ("augment", "crop,rotate"), ("input", "28x28x"), ("input", "0x1x1"),
                              ("threads", "0"), ("classes", "0"), ("batch", "9" * 30),
                              ("label-smoothing", "1"), ("holdout", "1")]:
            self.fails(2, "train", "lenet5", "--data", "synthetic", f"--{option}", value,
                       says=[f"--{option} {value}"])

    def test_missing(self):
        self.fails(2, "train", says=["MODEL"])
        self.fails(2, "train", "lenet5", says=["--data"])
        self.fails(2, "train", "lenet5", "--data", says=["--data needs a value"])
        self.fails(2, "train", "lenet5", "mlp", "--data", "synthetic", says=["mlp"])
        self.fails(2, "evaluate", "lenet5", says=["--weights"])
        self.fails(2, "predict", "lenet5", says=["IMAGE"])
        self.fails(2, "predict", "lenet5", "x.png", says=["--weights"])
        self.fails(2, "train", "lenet5", "--data", "synthetic", "--json=1", says=["no value"])
        self.fails(2, "train", "lenet5", "--data", "fasion-mnist", says=["fashion-mnist"])

    def test_conflicts(self):
        def train(*options, says):
            self.fails(2, "train", "mlp", "--data", "synthetic", *options, says=says)
        train("--override", says=["--resume"])
        train("--checkpoint-every", "5", "--no-save", says=["saved"])
        train("--save", "w", "--no-save", says=["contradict"])
        train("--optimizer", "adam", "--momentum", "0.9", says=["--momentum"])
        train("--optimizer", "adam", "--nesterov", says=["sgd"])
        train("--nesterov", "--momentum", "0", says=["--momentum"])
        train("--save", ".", says=["--save", "must name a file"])
        train("--save", "", says=["--save", "must name a file"])
        self.fails(1, "train", "mlp", "--data", "synthetic", "--save", "nowhere/x.safetensors",
                   says=["--save nowhere/x.safetensors: there is no folder nowhere"])


class Models(quern.Case):
    def test_table(self):
        output = self.run_quern("models").output
        for model in MODELS:
            self.assertIn(f"\n{model} ", output)

    def test_json(self):
        rows = [json.loads(line) for line in self.run_quern("models", "--json").output.splitlines()]
        parameters = {row["model"]: row["parameters"] for row in rows}
        self.assertEqual(parameters["lenet5"], 61706)
        self.assertLessEqual(set(MODELS), set(parameters))
        for row in rows:
            self.assertEqual(list(row), ["model", "domain", "task", "source", "input", "parameters",
                                         "forward_mflop", "feature_bytes"])

    def test_input(self):
        output = self.run_quern("models", "--input", "224x224x3").output
        self.assertRegex(output, r"\nresnet50 .* 224x224x3 +25,557,032 ")


if __name__ == "__main__":
    unittest.main()
