/**
 * The programs that run pip, each in a sandbox of its own: the Python that commands find, without the settings and modules of the
 * workspace (`-I`). Nothing in `.venv` is executed, since whoever writes to the workspace writes there.
 */

const SHARED = `
import csv, hashlib, json, os, re, shutil, sys, tempfile, urllib.request
from subprocess import DEVNULL, run as start
request = json.load(sys.stdin)
tmp = tempfile.mkdtemp(prefix="install-")
# No settings file is read, of whatever level.
env = {**{k: v for k, v in os.environ.items() if not k.startswith("PIP_")}, "PIP_CONFIG_FILE": os.devnull}
def run(words, cwd):
    ran = start(words, cwd=cwd, env=env, stdin=DEVNULL, capture_output=True, text=True, errors="replace")
    return {"code": ran.returncode, "stdout": ran.stdout, "stderr": ran.stderr[-8000:]}
flags = ["--isolated", "--only-binary", ":all:", "--index-url", request["index"] + "/", "--no-cache-dir", "--no-input",
  "--disable-pip-version-check", "--retries", "1"] + [w for host in request["plain"] for w in ("--trusted-host", host)]
normal = lambda name: re.sub(r"[-_.]+", "-", name).lower()
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
 * Installs a lockfile with its hashes into an environment of its own under /tmp, and moves what pip recorded there into .venv, which is
 * made where there is none. Refuses if a file of the project has changed since the plan.
 */
export const PIP_APPLY = `${SHARED}
def hash_of(path):
    text = read(path)
    return None if text is None else "sha256:" + hashlib.sha256(text.encode()).hexdigest()
def write(path, text):
    if text is None:
        if os.path.exists(path): os.unlink(path)
    else:
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
def moved():
    return [name for name, known in request["before"].items() if hash_of(name) != known]
clean = tmp + "/clean"
version = "%d.%d" % sys.version_info[:2]
site = "lib/python" + version + "/site-packages"
def recorded(root, info):
    rows = csv.reader((read(f"{root}/{site}/{info}/RECORD") or "").splitlines())
    return [os.path.normpath(f"{site}/{row[0]}") for row in rows if row]
def infos(root):
    return [it for it in os.listdir(f"{root}/{site}") if it.endswith(".dist-info")]
# A place in .venv; links that lead out of it are not followed.
def place(path):
    folder = os.path.realpath(os.path.dirname(".venv/" + path)) + "/"
    if not folder.startswith(os.path.realpath(".venv") + "/"): raise OSError(path + " leads out of .venv")
    return ".venv/" + path
def remove(info):
    for path in recorded(".venv", info):
        try: os.unlink(place(path))
        except OSError: continue
        folder = os.path.dirname(".venv/" + path)
        shutil.rmtree(folder + "/__pycache__", ignore_errors=True)
        try: os.removedirs(folder)
        except OSError: pass
    shutil.rmtree(place(f"{site}/{info}"), ignore_errors=True)
def merge():
    come = {normal(it.split("-")[0]): it for it in infos(clean)}
    for it in infos(".venv"):
        if normal(it.split("-")[0]) in come: remove(it)
    for path in [path for it in come.values() for path in recorded(clean, it) if os.path.exists(f"{clean}/{path}")]:
        to = place(path)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        if os.path.lexists(to): os.unlink(to)
        shutil.copy2(f"{clean}/{path}", to)
# pip runs as that of the clean environment, and names .venv's Python in the programs that it writes.
RUN = "import runpy, sys; sys.executable = sys.argv[1]; del sys.argv[:2]; runpy.run_path(sys.argv[0], run_name='__main__')"
def install():
    import pip
    with open(tmp + "/lock", "w", encoding="utf-8") as file: file.write(request["files"][request["lockfile"]])
    made = run([sys.executable, "-I", "-m", "venv", clean] + (["--without-pip"] if os.path.exists(".venv") else []), tmp)
    if made["code"] != 0: return made
    runner = os.path.dirname(pip.__file__) + "/__pip-runner__.py"
    words = [clean + "/bin/python", "-I", "-c", RUN, os.path.abspath(".venv/bin/python"), runner]
    return run([*words, "install", *flags, "--no-compile", "--require-hashes", "--no-deps", "-r", tmp + "/lock"], tmp)
linked = [name for name in [*request["files"], ".venv"] if os.path.islink(name)]
if moved(): report({"moved": moved()})
elif linked: report({"linked": linked})
elif os.path.exists(".venv") and not os.path.isdir(".venv/" + site): report({"other": version})
else:
    ran = install()
    if ran["code"] == 0 and not os.path.exists(".venv"): ran = run([sys.executable, "-I", "-m", "venv", "--without-pip", ".venv"], ".")
    if ran["code"] == 0 and moved(): report({"moved": moved()}); sys.exit()
    before = {name: read(name) for name in request["files"]}
    try:
        if ran["code"] == 0:
            for name, text in request["files"].items(): write(name, text)
            merge()
    except OSError as error:
        for name, text in before.items(): write(name, text)
        ran = {"code": -1, "stdout": "", "stderr": str(error)}
    report({"code": ran["code"], "stdout": ran["stdout"][-8000:], "stderr": ran["stderr"]})
`;
