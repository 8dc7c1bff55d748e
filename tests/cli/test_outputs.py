"""No output replaces an input: every command that the table of options lists with an output, each of its inputs and words,
by a hard link, a symbolic link and another spelling. The command is refused before it has opened anything to write
(tests/fake/disk.c watches), and the file is as it was. A new command, option or output is covered by its row."""
import os
import re
import unittest

import disk
import quern

READ = {"input", "data", "numerics", "rules", "names"}
LINKS = ("hard", "soft", "spelling")


class Command:
    def __init__(self, case, name):
        self.name = name
        self.options = case.run_quern("help", name, "--settings").events
        usage = re.match(r"usage: quern \S+(.*?)( \[OPTION\.\.\.\])?\n", case.run_quern("help", name).output)
        words = re.findall(r"[A-Z|]+", usage[1])
        self.first = 1 if words[:1] == ["ACTION"] else 0
        self.n_words = len(words)

    @property
    def outputs(self):
        return [row for row in self.options if "makes" in row]

    def words(self, place, value):
        """With the value as one of them, others before it; as many as the command takes at least."""
        return ["act"] * self.first + ["none"] * (place - self.first) + [value]

    def inputs(self):
        """(what is said of it, the option's name or None, arguments that read a file)."""
        before = self.words(self.first, "none") if self.n_words > self.first else self.words(0, "act")[:self.n_words]
        for row in self.options:
            if row["kind"] in READ:
                value = "csv:{}" if row["kind"] == "data" else "{}"
                yield f"--{row['name']}", row["name"], [*before, f"--{row['name']}", value]
        for place in range(self.first, self.n_words):
            yield "{}", None, self.words(place, "{}")


class Outputs(quern.Case):
    place = quern.IN_MEMORY

    def setUp(self):
        super().setUp()
        names = re.findall(r"^  (\w+) +[A-Z]", self.run_quern("help").output, re.M)
        self.commands = [command for command in (Command(self, name) for name in names) if command.outputs]
        (self.folder / "below").mkdir()
        self.contents = {"rules": self.run_quern("rules").output, "numerics": self.run_quern("numerics", "niti").output}

    def name_again(self, kind, path):
        """Another name of a file."""
        name = path.with_name(f"{path.name}.{kind}")
        if kind == "spelling":
            return f"below/../{path.name}"
        if kind == "hard":
            os.link(path, name)
        else:
            name.symlink_to(path.name)
        return name.name

    def refuse(self, arguments, says):
        """Status 2, the sentence, and no file was opened to write, made, renamed or removed."""
        log = self.folder.parent / f"{self.folder.name}.log"
        self.addCleanup(log.unlink, missing_ok=True)
        done, _ = disk.run(self, arguments, log=log)
        self.assertEqual(done.returncode, 2, f"{arguments}: {done.stdout}{done.stderr}")
        self.assertIn(says, done.stderr, arguments)
        self.assertEqual([entry[:1] + entry[-1:] for entry in disk.read_log(log)], [], arguments)

    def check(self, command, output, said, name, reads, kind):
        path = self.folder / "given.file"
        content = self.contents.get(name, "a\nb\n")
        path.write_text(content)
        other = self.name_again(kind, path)
        arguments = [word.format(path.name) for word in reads]
        self.refuse([command.name, *arguments, f"--{output['name']}", other, "--force"],
                    f"--{output['name']} {other}: that is the file of {said.format(path.name)}, and would be lost")
        self.assertEqual(path.read_text(), content)
        for left in self.folder.glob("given.file*"):
            left.unlink()

    def test_each_input(self):
        tried = {}
        for command in self.commands:
            for output in command.outputs:
                for said, name, reads in command.inputs():
                    if name and name == output.get("replaces"):
                        continue
                    n = len(tried)
                    for kind in LINKS if quern.ALL else LINKS[n % 3:][:1]:
                        self.check(command, output, said, name, reads, kind)
                    tried[command.name, output["name"], said] = kind
        self.assertLessEqual({"train", "plan", "profile", "evaluate", "sample", "convert", "merge", "export", "meter", "learn",
                              "federate", "split", "label", "inspect"}, {command for command, _, _ in tried})
        self.assertGreater(len(tried), 150)

    def test_outputs_of_one_command(self):
        """Two outputs are two files."""
        for command in self.commands:
            names = [row["name"] for row in command.outputs]
            words = ["none"] * command.n_words
            for first, second in zip(names, names[1:]):
                self.refuse([command.name, *words, f"--{first}", "one", f"--{second}", "below/../one"], "they need two")

    def test_unfinished_names(self):
        """What has a name of unfinished files is removed where it is one; an input is none."""
        for command in self.commands:
            said, _, reads = next(command.inputs())
            output = next(row for row in command.outputs if row["kind"] in ("target", "output"))
            path = self.folder / "out.quern-tmp3"
            path.write_text("a\nb\n")
            self.refuse([command.name, *(word.format(path.name) for word in reads), f"--{output['name']}", "out"],
                        f"{path.name} is the file of {said.format(path.name)}")
            self.assertEqual(path.read_text(), "a\nb\n")


if __name__ == "__main__":
    unittest.main()
