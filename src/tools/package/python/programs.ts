/** The programs that run pip, each in a sandbox of its own: Python without the settings and modules of the workspace (`-I`). */

const SHARED = `
import hashlib, json, os, re, sys, tempfile, urllib.request
from subprocess import DEVNULL, run as start
request = json.load(sys.stdin)
tmp = tempfile.mkdtemp(prefix="install-")
# No settings file is read, of whatever level.
env = {**{k: v for k, v in os.environ.items() if not k.startswith("PIP_")}, "PIP_CONFIG_FILE": os.devnull,
  "SETUPTOOLS_USE_DISTUTILS": "stdlib"}
def run(words, cwd):
    ran = start(words, cwd=cwd, env=env, stdin=DEVNULL, capture_output=True, text=True, errors="replace")
    return {"code": ran.returncode, "stdout": ran.stdout, "stderr": ran.stderr[-8000:]}
flags = ["--isolated", "--only-binary", ":all:", "--index-url", request["index"] + "/", "--no-cache-dir", "--no-input",
  "--disable-pip-version-check", "--retries", "1"] + [w for host in request["plain"] for w in ("--trusted-host", host)]
def report(value):
    sys.stdout.write(json.dumps(value))
def read(path):
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
`;

/**
 * Resolves the requirements without installing anything; only wheels are taken, since other archives run code when they are read.
 * Versions in their cool-down are left out one round after the other, by the times in the index (PEP 700).
 */
export const PIP_PLAN = `${SHARED}
normal = lambda name: re.sub(r"[-_.]+", "-", name).lower()
listings = {}
def listing(name):
    if name not in listings:
        try:
            asked = urllib.request.Request(request["index"] + "/" + name + "/", headers={"Accept": "application/vnd.pypi.simple.v1+json"})
            with urllib.request.urlopen(asked, timeout=30) as answer:
                listings[name] = json.loads(answer.read(1 << 26))["files"]
        except Exception:
            listings[name] = []
    return listings[name]
def young(time):
    return not isinstance(time, str) or time[:19] > request["notAfter"][:19]
def excepted(name):
    return name in request["excepted"]
excluded, pinned, made, found = {}, request["pinned"], None, []
for turn in range(request["rounds"]):
    for name, text in request["files"].items():
        with open(tmp + "/" + name, "w") as file:
            file.write(text)
    with open(tmp + "/constraints", "w") as file:
        file.writelines(f"{name}=={version}\\n" for name, version in pinned.items() if name not in excluded)
        file.writelines(f"{name}!={version}\\n" for name, versions in excluded.items() for version in sorted(versions))
    files = [word for name in request["files"] for word in ("-r", name)]
    made = run([sys.executable, "-I", "-m", "pip", "install", "--dry-run", "--ignore-installed", "--target", tmp + "/none"] + flags + ["--quiet", "--report", "-", "-c", "constraints"] + files, tmp)
    if made["code"] != 0:
        if not pinned: break
        pinned = {}
        continue
    found = []
    for it in json.loads(made["stdout"])["install"]:
        archive = it["download_info"].get("archive_info", {})
        sha256 = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").removeprefix("sha256=")
        name = normal(it["metadata"]["name"])
        times = [file.get("upload-time") for file in listing(name) if file.get("hashes", {}).get("sha256") == sha256]
        found.append({"name": name, "version": it["metadata"]["version"], "url": it["download_info"]["url"], "sha256": sha256,
          "isDirect": it.get("is_direct", True), "license": it["metadata"].get("license"), "time": times[0] if times else None})
    fresh = [it["name"] for it in found if request["isCooled"] and young(it["time"]) and it["time"] and not excepted(it["name"]) and pinned.get(it["name"]) != it["version"]]
    if not fresh: break
    for name in fresh:
        wheels = [file for file in listing(name) if file["filename"].endswith(".whl") and young(file.get("upload-time"))]
        excluded.setdefault(name, set()).update(file["filename"].split("-")[1] for file in wheels)
report({"code": made["code"], "stderr": made["stderr"], "excluded": sorted(excluded), "found": found})
`;

/**
 * Installs a lockfile with its hashes into .venv, which is made where there is none. Refuses if a file of the project has changed since
 * the plan, or if starting the Python of .venv would run code of a package.
 */
export const PIP_APPLY = `${SHARED}${String.raw`
def hash_of(path):
    text = read(path)
    return None if text is None else "sha256:" + hashlib.sha256(text.encode()).hexdigest()
def write(path, text):
    if text is None:
        if os.path.exists(path): os.unlink(path)
    else:
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
# What setuptools installs; it does nothing by the variable that run() sets.
KNOWN = re.compile(r"import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os\.environ\.get\(var, '\w+'\) == 'local'; enabled and __import__\('_distutils_hack'\)(\.add_shim\(\))?;?\s*")
def runs(path):
    with open(path, errors="replace") as file:
        text = file.read()
    return re.search(r"^import\s", text, re.M) and not KNOWN.fullmatch(text)
def startup_code():
    for folder, _, names in os.walk(".venv"):
        for name in names:
            path = folder + "/" + name
            if name in ("sitecustomize.py", "usercustomize.py"): yield path
            if name.endswith(".pth") and runs(path): yield path
moved = [name for name, known in request["before"].items() if hash_of(name) != known]
linked = [name for name in [*request["files"], ".venv"] if os.path.islink(name)]
inside = os.path.realpath(".venv/bin/python").startswith(request["workspace"] + "/")
if moved: report({"moved": moved})
elif linked: report({"linked": linked})
elif os.path.exists(".venv") and (inside or next(startup_code(), None)):
    report({"startup": ".venv/bin/python" if inside else next(startup_code())})
else:
    before = {name: read(name) for name in request["files"]}
    made = None if os.path.exists(".venv") else run([sys.executable, "-I", "-m", "venv", ".venv"], ".")
    for name, text in request["files"].items(): write(name, text)
    words = [".venv/bin/python", "-I", "-m", "pip", "install", *flags, "--require-hashes", "--no-deps", "-r", request["lockfile"]]
    ran = made if made and made["code"] != 0 else run(words, ".")
    if ran["code"] != 0:
        for name, text in before.items(): write(name, text)
    report({"code": ran["code"], "stdout": ran["stdout"][-8000:], "stderr": ran["stderr"]})
`}`;
