"""Workflows, templates and hooks are well formed and call what exists."""

import re
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="workflows are written in YAML")

import kernels  # noqa: E402

ROOT = Path(__file__).parent.parent
GITHUB = ROOT / ".github"
HOOKS = ROOT / ".pre-commit-config.yaml"
WORKFLOWS = {path.stem: path for path in sorted((GITHUB / "workflows").glob("*.yml"))}
TEMPLATES = [
    path for path in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) if path.stem != "config"
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


class _UniqueKeys(yaml.SafeLoader):
    """A loader that refuses a key given twice, of which YAML would keep the last."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"a key is given twice in {node.start_mark}"
        return super().construct_mapping(node, deep)


def load(path):
    return yaml.load(path.read_text(encoding="utf-8"), _UniqueKeys)


def steps(path):
    return [step for job in load(path)["jobs"].values() for step in job["steps"]]


def test_workflows_are_those_that_the_project_needs():
    assert WORKFLOWS.keys() == {"tests", "lint", "docs", "release"}


@pytest.mark.parametrize("path", WORKFLOWS.values(), ids=WORKFLOWS.keys())
def test_workflow_is_complete(path):
    workflow = load(path)
    assert workflow["name"]
    assert workflow[True], "`on`, which YAML reads as true"
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job["runs-on"], name
        assert job["timeout-minutes"] <= 60, name
        assert set(job.get("needs", [])) <= workflow["jobs"].keys(), name
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step), step


@pytest.mark.parametrize("path", WORKFLOWS.values(), ids=WORKFLOWS.keys())
def test_workflow_calls_make_targets_that_exist(path):
    called = [
        target
        for step in steps(path)
        for target in re.findall(r"^make ([\w-]+)", step.get("run", ""), flags=re.MULTILINE)
    ]
    assert called
    assert set(called) <= TARGETS


@pytest.mark.parametrize("path", WORKFLOWS.values(), ids=WORKFLOWS.keys())
def test_actions_name_a_version(path):
    for step in steps(path):
        assert re.fullmatch(
            r"[\w-]+/[\w-]+@(v\d+|release/v\d+|[0-9a-f]{40})", step.get("uses", "a/b@v1")
        )


@pytest.mark.parametrize(
    ("workflow", "systems"),
    [
        ("tests", ["ubuntu-latest", "macos-latest", "windows-latest"]),
        ("release", ["ubuntu-latest", "ubuntu-24.04-arm", "macos-latest", "windows-latest"]),
    ],
)
def test_tests_run_on_every_python_that_is_promised(workflow, systems):
    matrix = load(WORKFLOWS[workflow])["jobs"]["test"]["strategy"]["matrix"]
    promised = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    assert matrix["python"] == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"
    assert matrix["os"] == systems


def test_only_the_job_that_publishes_may_sign():
    release = load(WORKFLOWS["release"])
    assert release[True] == {"push": {"tags": ["v*"]}}
    signing = {name for name, job in release["jobs"].items() if "permissions" in job}
    assert signing == {"publish"}
    assert release["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert release["jobs"]["publish"]["needs"] == ["build", "test"]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_issue_template_asks_for_something(path):
    form = load(path)
    assert form["name"]
    assert form["description"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_there_are_templates_for_bugs_questions_and_results_that_disagree():
    assert [path.stem for path in TEMPLATES] == ["bug", "disagreement", "question"]
    assert load(GITHUB / "ISSUE_TEMPLATE" / "config.yml")["blank_issues_enabled"] is True
    assert "make test" in (GITHUB / "PULL_REQUEST_TEMPLATE.md").read_text(encoding="utf-8")


def test_hooks_call_the_repositorys_own_tools():
    hooks = [hook for repo in load(HOOKS)["repos"] for hook in repo["hooks"]]
    assert [hook["entry"] for hook in hooks] == ["make format", "make lint"]
    assert {hook["entry"].split()[1] for hook in hooks} <= TARGETS


def test_continuous_integration_calls_make_targets_that_exist():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    called = re.findall(r"^ *make ([\w-]+)", script, flags=re.MULTILINE)
    expected = ["lint", "bench", "coverage", "test-kernels", "test-minimum", "test-quick", "docs"]
    assert called == expected
    assert set(called) <= TARGETS


def test_coverage_has_a_floor_of_ninety_percent():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert settings["coverage"]["report"]["fail_under"] >= 90
    assert "subprocess" in settings["coverage"]["run"]["patch"]


def test_tests_of_numbers_are_there():
    for pattern in kernels.PATTERNS:
        assert list(kernels.TESTS.glob(pattern)), pattern
    assert kernels.EXAMPLES.is_dir()


def test_kernels_are_named_or_refused(capsys, monkeypatch):
    monkeypatch.setattr(kernels, "cpu_features", dict)  # a processor of another kind
    assert kernels.main(["Pentium"]) == 2
    assert "got ['Pentium']" in capsys.readouterr().err
    assert kernels.main([]) == 0
    assert capsys.readouterr().out.count("cannot run its kernels") == len(kernels.KERNELS)
