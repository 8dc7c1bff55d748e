"""The shared library exports what the public headers declare with QN_API, and nothing else; each
header compiles alone, as C and, where a compiler is there, as C++."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

include = pathlib.Path(os.environ["QUERN_SOURCE"]) / "include"
library = pathlib.Path(os.environ["QUERN_BUILD"]) / "libquern.so"
headers = sorted((include / "quern").glob("*.h"))
failed = False

declared = set()
for header in headers:
    text = re.sub(r"/\*.*?\*/|^#define.*?$", "", header.read_text(), flags=re.S | re.M)
    declared |= {re.search(r"(qn_\w+)\s*\(", part).group(1)
                 for part in re.findall(r"\bQN_API\b(.*?);", text, re.S)}
listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True,
                         stdout=subprocess.PIPE).stdout
exported = {line.split()[-1] for line in listing.splitlines()}
for name in sorted(declared - exported):
    print(f"{name} is declared and not exported")
    failed = True
for name in sorted(exported - declared):
    print(f"{name} is exported and not declared")
    failed = True

for compiler, language in (("cc", "c"), ("c++", "c++")):
    if not shutil.which(compiler):
        print(f"no {compiler}: headers not tried as {language}")
        continue
    for header in headers:
        result = subprocess.run([compiler, "-x", language, "-Wall", "-Wextra", "-Werror",
                                 "-fsyntax-only", f"-I{include}", "-"],
                                input=f"#include <quern/{header.name}>\n", text=True)
        failed |= result.returncode != 0

print(f"{len(declared)} functions declared, {len(headers)} headers:", "FAILED" if failed else "ok")
sys.exit(failed)
