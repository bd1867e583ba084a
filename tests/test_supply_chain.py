"""What we ship is what we built, of what we have looked at: pins, hashes, the bill of materials, the audit."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests import audit, sbom
from tests.tables import rows
from tests.versions.requirements import pyproject

_ROOT = Path(__file__).parent.parent
_WORKFLOWS = sorted((_ROOT / ".github/workflows").glob("*.yml"))
_BY_HASH = '"python -m pip install --require-hashes --only-binary :all: --requirement .ci/release.txt"'
_NPM_BY_HASH = re.compile(r"- run: npm (ci --ignore-scripts|run check|test|pack)|run: npm publish --ignore-scripts .*")
"""`npm ci` compares the hashes of package-lock.json. The others install nothing."""
_OTHER_VERSIONS = {"newest", "compat-matrix", "measure"}
"""Jobs whose subject is versions that are not locked."""


_NPM_PACKAGE = "packages/progress/clients/eagerstream-records"
_PYPROJECT = pyproject()
_GROUPS = _PYPROJECT["dependency-groups"]


@cache
def _locked() -> dict[str, str]:
    """What uv.lock has of each `name==version` of a registry, as text: tomllib reads it in a third of a second."""
    _, *packages = (_ROOT / "uv.lock").read_text().split("\n[[package]]\n")
    return {
        "==".join(re.findall(r'(?m)^(?:name|version) = "(.*)"', text)): text
        for text in packages
        if "\nsource = { registry = " in text
    }


def _jobs() -> Iterator[tuple[str, str]]:
    """The name and the text of each job."""
    for file in _WORKFLOWS:
        _, *parts = re.split(r"(?m)^  ([a-z-]+):.*\n(?=    )", file.read_text().partition("\njobs:\n")[2])
        yield from zip(parts[::2], parts[1::2], strict=True)


def test_workflows_are_yaml() -> None:
    """A colon before a space starts a value, unless the text is quoted. GitHub would run nothing of the file."""
    yaml = pytest.importorskip("yaml")
    read = {name for file in _WORKFLOWS for name in yaml.safe_load(file.read_text())["jobs"]}
    assert read == {name for name, _ in _jobs()}


def test_actions() -> None:
    """A tag can be moved to another commit. A hash cannot."""
    used = [line for file in _WORKFLOWS for line in file.read_text().splitlines() if "uses:" in line]
    assert len(used) > 20
    for line in used:
        assert re.search(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d", line), line


def test_workflows_install_by_hash() -> None:
    """Of each job, whatever installs a package. `make` does so with `uv sync --frozen`, which compares the hashes."""
    assert "uv sync --active --frozen" in (_ROOT / "Makefile").read_text()
    jobs = dict(_jobs())
    assert {"pure", "compiled", "sbom", "publish", "ci", "test-all"} <= jobs.keys()
    for name, text in jobs.items():
        commands = [line.strip() for line in text.splitlines() if "run:" in line and "name:" not in line]
        installing = [
            line
            for line in commands
            if re.search(r"pip|npm|uvx?\b", line.replace(_BY_HASH, "")) and not _NPM_BY_HASH.fullmatch(line)
        ]
        assert not installing, (name, installing)
        if any(re.search(r"make |\.ci/|python -m (?!pip)", line) for line in commands):
            assert (f"- run: {_BY_HASH}" in text) is (name not in _OTHER_VERSIONS), name
            assert ('LOCKED: ""' in text) is (name in _OTHER_VERSIONS), name


def test_nothing_is_installed_where_something_is_signed() -> None:
    """A package that is not what it seems finds no rights in its job, except for those of this build."""
    for name, text in _jobs():
        if "write" in text:
            assert "pip install" not in text, name
            assert "setup-python" not in text, name
            assert not re.search(r"npm (ci|install|i|exec)\b|npx", text), name


def test_the_npm_package_is_published() -> None:
    """By a job that has no token and only the archive of the job that tested it. Two jobs sign, and one more publishes."""
    jobs = dict(_jobs())
    assert {name for name, text in jobs.items() if "id-token: write" in text} == {"attest", "publish", "publish-npm"}
    building, publishing = jobs["npm"], jobs["publish-npm"]
    steps = [
        "The tag is the version",
        "npm ci --ignore-scripts",
        "npm run check",
        "npm test",
        "npm pack",
        "upload-artifact",
    ]
    places = [building.index(step) for step in steps]
    assert places == sorted(places)
    assert "write" not in building
    assert re.search(r"needs: \[npm, check, attest\]", publishing)
    assert "npm publish --ignore-scripts --provenance --access public" in publishing
    assert "checkout" not in publishing
    assert not re.search(r"(?i)token(?!: write)|secrets\.", publishing.replace("id-token", ""))
    package = json.loads((_ROOT / _NPM_PACKAGE / "package.json").read_text())
    assert "private" not in package
    assert "scripts" not in package or not {"install", "postinstall", "preinstall"} & package["scripts"].keys()
    # npm compares this with the repository that the workflow runs in.
    assert package["repository"]["url"] == f"git+{_PYPROJECT['project']['urls']['Source']}.git"
    assert package["repository"]["directory"] == _NPM_PACKAGE
    assert (package["sideEffects"], package["files"]) == (False, ["dist"])
    for targets in package["exports"].values():
        for target in targets.values() if isinstance(targets, dict) else [targets]:
            assert target.startswith(("./dist/", "./package.json"))


@rows("file", ["packages/wire/build.txt", ".ci/release.txt"])
def test_requirements_with_hashes(file: str) -> None:
    """They are what `make pins` writes: each version of uv.lock that the group names, with the hashes of all its files."""
    text, group = (_ROOT / file).read_text(), Path(file).stem
    pins = re.findall(r"(?m)^([\w-]+)==(\S+).*((?:\n    --hash=\S+.*)+)", text)
    for name, version, hashes in pins:
        assert set(re.findall(r"--hash=(\S+)", hashes)) == set(
            re.findall(r'hash = "(.*?)"', _locked()[f"{name}=={version}"])
        )
    given = {f"{name}=={version}" for name, version, _ in pins}
    named = [line for line in (*_GROUPS[group], *_GROUPS["build"]) if isinstance(line, str)]
    assert {line.replace("[mypyc]", "") for line in named} <= given
    assert len(pins) == len(re.findall(r"(?m)^[a-z]", text)), "a requirement without a hash"


def test_build_requirements_are_exact() -> None:
    """pip builds the source distribution with the versions of the release, too."""
    assert all("==" in line for line in _GROUPS["build"])
    assert set(_PYPROJECT["build-system"]["requires"]) <= set(_GROUPS["build"])
    hook = (_ROOT / "packages/wire/hatch_build.py").read_text()
    added = re.findall(r'"(mypy\S+|setuptools\S+)"', hook)
    assert len(added) == 2
    assert set(added) <= set(_GROUPS["build"])


def test_each_file_of_the_lock_has_a_hash() -> None:
    """uv and npm refuse a file with another one."""
    assert len(_locked()) > 200
    for text in _locked().values():
        assert text.count("{ url = ") == text.count('hash = "sha256:') > 0
    for name in (
        "packages/progress/tests/clients",
        "packages/testing/tests/aimock",
        "packages/progress/clients/eagerstream-records",
        "benchmarks/conformance/npm",
    ):
        for place, package in json.loads((_ROOT / name / "package-lock.json").read_text())["packages"].items():
            assert not place or package.get("link") or package["integrity"].startswith("sha512-"), (name, place)


def test_a_bill_of_materials(tmp_path: Path) -> None:
    """It has the dependencies as uv knows them, the version, and the hash of each file of the release."""
    files = [tmp_path / "eagerstream-1.2.tar.gz", tmp_path / "eagerstream-1.2-py3-none-any.whl"]
    for file in files:
        file.write_bytes(b"")
    export = {"metadata": {"timestamp": "t", "component": {"name": "eagerstream"}}, "components": [1]}
    bill = sbom.with_files(export, files)
    own = bill["metadata"]["component"]
    assert (bill["components"], bill["metadata"]["timestamp"]) == ([1], "t")
    assert (own["version"], own["purl"]) == ("1.2", "pkg:pypi/eagerstream@1.2")
    assert [part["name"] for part in own["components"]] == sorted(file.name for file in files)
    (empty,) = own["components"][0]["hashes"]
    assert empty["content"].startswith("e3b0c44298fc1c14")
    for wrong in ([], [*files, tmp_path / "eagerstream-1.3-py3-none-any.whl"]):
        with pytest.raises(ValueError, match="of these versions: "):
            sbom.with_files(export, wrong)


def _osv(request: Any, timeout: float) -> io.BytesIO:
    """Answer as OSV does, which knows one vulnerability here."""
    assert (request.full_url, timeout > 0) == ("https://api.osv.dev/v1/querybatch", True)
    queries = json.loads(request.data)["queries"]
    bad = {"package": {"name": "bad", "ecosystem": "PyPI"}, "version": "1"}
    results = [{"vulns": [{"id": "GHSA-1"}]} if query == bad else {} for query in queries]
    return io.BytesIO(json.dumps({"results": results}).encode())


def test_an_audit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It asks for all locked versions and all lower bounds, and fails for one with a known vulnerability."""
    monkeypatch.setattr(audit, "packages", lambda: [{"name": "h11", "version": "0.16.0"}])
    assert {("anthropic", "0.78"), ("h11", "0.16.0")} <= audit.oldest() | audit.locked()
    assert {bound for name, bound in audit.oldest() if name == "uvicorn"} == {"0.30"}
    monkeypatch.setattr("urllib.request.urlopen", _osv)
    assert audit.main() == 0
    monkeypatch.setattr(audit, "oldest", lambda: {("bad", "1"), ("bad", "2"), ("good", "1")})
    assert audit.main() == 1
    monkeypatch.setitem(audit.ACCEPTED, "GHSA-1", "no reason")
    assert audit.main() == 0
    assert "oldest allowed: bad 1 has GHSA-1\n" in capsys.readouterr().out
