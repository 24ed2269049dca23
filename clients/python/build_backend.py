"""Builds wheel and sdist with the standard library: what PEP 517 asks of a build backend, and no more.

``pip install clients/python`` calls it; so does ``python build_backend.py FOLDER``, which writes both files there.
The same sources give the same wheel, byte by byte.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parent
_PROJECT = (_ROOT / "pyproject.toml").read_text()
#: The earliest time that a zip file can name.
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


def _setting(name: str) -> str:
    """A text of pyproject.toml. Python 3.10 has no reader of TOML, and the file is ours."""
    found = re.search(rf'^{name} = "(.*)"$', _PROJECT, re.MULTILINE)
    if found is None:
        raise ValueError(f"pyproject.toml has no {name}")
    return found[1]


_NAME = f"{_setting('name')}-{_setting('version')}"


def _metadata() -> str:
    keywords = ",".join(re.findall(r'"(\w+)"', re.search(r"^keywords = \[(.*)\]", _PROJECT, re.MULTILINE)[1]))  # type: ignore[index]
    classifiers = re.findall(r'^  "(.+ :: .+)",$', _PROJECT, re.MULTILINE)
    urls = re.findall(r'^(\w+) = "(https:.*)"$', _PROJECT, re.MULTILINE)
    extras = re.findall(r'^(\w+) = \["(.*)"\]$', _PROJECT, re.MULTILINE)
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {_setting('name')}",
        f"Version: {_setting('version')}",
        f"Summary: {_setting('description')}",
        f"License-Expression: {_setting('license')}",
        "License-File: LICENSE",
        f"Keywords: {keywords}",
        f"Requires-Python: {_setting('requires-python')}",
        *(f"Classifier: {it}" for it in classifiers),
        *(f"Project-URL: {label}, {url}" for label, url in urls),
        *(line for name, needs in extras if name == "fast" for line in (f"Provides-Extra: {name}", f'Requires-Dist: {needs}; extra == "{name}"')),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + (_ROOT / "README.md").read_text()


def _modules() -> list[Path]:
    return sorted(it for it in (_ROOT / "src/ringfence").rglob("*") if it.suffix == ".py" or it.name == "py.typed")


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    """Writes the wheel and returns its file name."""
    info = f"{_NAME}.dist-info"
    files = {str(it.relative_to(_ROOT / "src")): it.read_bytes() for it in _modules()}
    files[f"{info}/METADATA"] = _metadata().encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: ringfence\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/licenses/LICENSE"] = (_ROOT / "LICENSE").read_bytes()
    record = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    name = f"{_NAME}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, _ZIP_TIME)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return name


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """Writes the sources as an archive and returns its file name."""
    files = {str(it.relative_to(_ROOT)): it.read_bytes() for it in [*_modules(), *sorted((_ROOT / "tests").glob("*.py"))]}
    for it in ("pyproject.toml", "README.md", "LICENSE", "build_backend.py"):
        files[it] = (_ROOT / it).read_bytes()
    files["PKG-INFO"] = _metadata().encode()
    name = f"{_NAME}.tar.gz"
    with tarfile.open(Path(sdist_directory, name), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for path, data in files.items():
            entry = tarfile.TarInfo(f"{_NAME}/{path}")
            entry.size = len(data)
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(data))
    return name


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    (folder,) = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    print(build_wheel(folder), build_sdist(folder), sep="\n")
