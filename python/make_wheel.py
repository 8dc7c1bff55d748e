"""Packs the CMake component `python` of a build as a wheel: make_wheel.py BUILD FOLDER. Name, version and what
is said of the package come from pyproject.toml, the platform from what the library needs: manylinux with the
newest version of glibc's symbols where it needs libc alone, else this system's own. The same build gives the
same bytes. Prints the wheel's path."""
import base64
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile

TOP = pathlib.Path(__file__).resolve().parent.parent
OF_LIBC = re.compile(r"lib(c|m|pthread|dl|rt)\.so\.\d+|ld-linux-.*\.so\.\d+")
MACHINES = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}


def readelf(option, library):
    """What readelf says of a library."""
    return subprocess.run(["readelf", "-W", option, library], check=True, text=True, stdout=subprocess.PIPE).stdout


def platform_of(library):
    """The platform of a wheel: manylinux_2_34_x86_64, linux_aarch64."""
    machine = MACHINES[re.search(r"Machine:\s+(.*?)\s*$", readelf("-h", library), re.M).group(1)]
    needed = re.findall(r"\(NEEDED\).*\[(.*?)\]", readelf("-d", library))
    versions = readelf("-V", library)
    if any(not OF_LIBC.fullmatch(name) for name in needed) or "GLIBC_ABI" in versions:
        return f"linux_{machine}"
    newest = max(int(minor) for minor in re.findall(r"Name: GLIBC_2\.(\d+)", versions))
    return f"manylinux_2_{max(newest, 17)}_{machine}"


def metadata(project, version):
    """The text of METADATA."""
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {version}",
             f"Summary: {project['description']}", f"Requires-Python: {project['requires-python']}"]
    lines += [f"Requires-Dist: {one}" for one in project["dependencies"]]
    lines += [f"Classifier: {one}" for one in project["classifiers"]]
    lines += ["License-File: LICENSE", "Description-Content-Type: text/markdown", ""]
    return "\n".join(lines) + "\n" + (TOP / project["readme"]).read_text()


def contents(build, folder):
    """The component's files by their path in the wheel."""
    subprocess.run(["cmake", "--install", build, "--component", "python", "--prefix", folder], check=True,
                   stdout=subprocess.DEVNULL)
    return {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(pathlib.Path(folder).rglob("*")) if path.is_file()}


def main(build, out):
    """Writes the wheel."""
    settings = tomllib.loads((TOP / "pyproject.toml").read_text())
    rule = settings["tool"]["scikit-build"]["metadata"]["version"]
    version = re.search(rule["regex"], (TOP / rule["input"]).read_text()).group("value")
    name = settings["project"]["name"]
    with tempfile.TemporaryDirectory() as folder:
        files = contents(build, folder)
        tag = f"py3-none-{platform_of(pathlib.Path(folder) / name / 'libquern.so')}"
    about = f"{name}-{version}.dist-info"
    files[f"{about}/METADATA"] = metadata(settings["project"], version).encode()
    files[f"{about}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: {name}\nRoot-Is-Purelib: false\n"
                               f"Tag: {tag}\n").encode()
    files[f"{about}/LICENSE"] = (TOP / "LICENSE").read_bytes()
    rows = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        rows.append(f"{path},sha256={digest},{len(data)}\n")
    files[f"{about}/RECORD"] = ("".join(rows) + f"{about}/RECORD,,\n").encode()
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if path.endswith(".so") else 0o644) << 16
            archive.writestr(entry, data)
    print(wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])
