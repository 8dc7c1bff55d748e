"""The notebook of the examples, executed without a screen: no cell fails, and plans, histories, progress and
reports show themselves as tables, pictures and pages."""
import json
import os
import pathlib
import subprocess
import tempfile

import fresh

with tempfile.TemporaryDirectory() as folder:
    place = pathlib.Path(folder)
    python = fresh.make(place)
    packages = fresh.run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    environment = {**os.environ, "PYTHONPATH": packages, "HOME": folder, "XDG_CACHE_HOME": folder}
    done = place / "done.ipynb"
    result = subprocess.run(
        ["jupyter-nbconvert", "--to", "notebook", "--execute", "--ExecutePreprocessor.timeout=900", "--output",
         str(done), str(fresh.SOURCE / "examples/notebook.ipynb")],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert result.returncode == 0, result.stdout
    if os.environ.get("QUERN_KEEP"):  # to look at
        pathlib.Path(os.environ["QUERN_KEEP"]).write_text(done.read_text())
    cells = [cell for cell in json.loads(done.read_text())["cells"] if cell["cell_type"] == "code"]
shown = ["".join("".join(output.get("data", {}).get("text/html", "")) for output in cell["outputs"]) for cell in cells]
plain = ["".join("".join(output.get("data", {}).get("text/plain", "")) for output in cell["outputs"]) for cell in cells]
assert "budget" in shown[0] and "<table" in shown[0], shown[0]
assert "<svg" in shown[1] and "epoch 3" in shown[1] and "validation loss" in shown[1], shown[1][:3000]
assert "'accuracy'" in plain[2], plain[2]
assert "array" in plain[3] and "conv1.weight" in plain[4], plain[3:5]
assert "ms" in shown[5] and " J" in shown[5], shown[5]
assert "srcdoc" in shown[6] and len(shown[6]) > 20000, len(shown[6])
print([len(one) for one in shown])
