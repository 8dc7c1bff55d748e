"""Every kernel under Oclgrind, which interprets OpenCL with the tiles of GPUs and watches memory: every
sample of every operator, with gradients, without an access outside of a buffer, a data race or a
wrong call of the driver. Skipped where Oclgrind is not installed."""
import os
import re
import subprocess
import sys
import tempfile

DRIVERS = ["/usr/lib/oclgrind/liboclgrind-rt-icd.so", "/usr/lib64/oclgrind/liboclgrind-rt-icd.so"]


def kernels():
    with open(os.path.join(os.environ["QUERN_SOURCE"], "src/device/gpu/state.h")) as file:
        text = file.read()
    lists = text[text.index("#define QN_GPU_TILED"):text.index("typedef enum qn_gpu_kernel")]
    return set(re.findall(r"K\((\w+)\)", lists)) - {"K"}


def run(driver, folder):
    """What the operators' test prints, and what Oclgrind found."""
    log = os.path.join(folder, "log")
    with open(os.path.join(folder, "oclgrind.icd"), "w") as file:
        file.write(driver + "\n")
    environment = dict(os.environ, OCL_ICD_VENDORS=folder, QUERN_ALL="1", OCLGRIND_LOG=log,
                       OCLGRIND_DATA_RACES="1", OCLGRIND_CHECK_API="1", OCLGRIND_INST_COUNTS="1",
                       OCLGRIND_MAX_ERRORS="100")
    program = os.path.join(os.environ["QUERN_TOOLS"], "test_opencl")
    done = subprocess.run([program, "operators"], env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    found = open(log).read() if os.path.exists(log) else ""
    return done, found


def main():
    driver = next((path for path in DRIVERS if os.path.exists(path)), None)
    if not driver:
        print("skipped: Oclgrind is not installed (Debian's oclgrind)")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        done, found = run(driver, folder)
    ran = set(re.findall(r"kernel '(\w+)'", done.stdout))
    wrong = [line for line in found.splitlines() if line.strip()]
    if wrong:
        print("\n".join(wrong[:60]))
    if done.returncode != 0:
        print(done.stdout[-4000:])
    missing = sorted(kernels() - ran)
    if missing:
        print("never run:", " ".join(missing))
    print(f"{len(ran & kernels())} kernels of {len(kernels())}, {len(wrong)} lines of complaints")
    return 1 if wrong or missing or done.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
