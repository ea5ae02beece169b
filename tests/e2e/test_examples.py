"""Every configuration that comes with the daemon is valid, for the daemon and for its schema."""

import json
import pathlib
import re

import pytest

from harness import BINARY, run_framed

pytestmark = [pytest.mark.host, pytest.mark.plain]  # the portable folder has no config/
CONFIG = pathlib.Path(__file__).resolve().parents[2] / "config"
EXAMPLES = [CONFIG / "framed.yaml", *sorted((CONFIG / "examples").glob("*.yaml"))]


@pytest.fixture(name="schema", scope="module")
def fixture_schema():
    """Left out on a bare machine with a GPU, which has no package for it."""
    jsonschema = pytest.importorskip("jsonschema")
    done = run_framed("--print-schema")
    assert done.returncode == 0, done.stderr
    schema = json.loads(done.stdout)
    # Versions before 4.0 do not know that draft. The schema uses nothing that is newer than draft 7.
    validator = getattr(jsonschema, "Draft202012Validator", jsonschema.Draft7Validator)
    validator.check_schema(schema)
    return validator(schema)


def read_yaml(text):
    return pytest.importorskip("yaml").safe_load(text)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_is_valid(example):
    done = run_framed("-c", example, "--check", env={"FRAMED_CAMERA": str(BINARY)})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_fits_the_schema(example, schema):
    schema.validate(read_yaml(example.read_text()))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_what_is_printed_fits_the_schema(example, schema):
    done = run_framed("-c", example, "--print-config", env={"FRAMED_CAMERA": str(BINARY)})
    assert done.returncode == 0, done.stderr
    schema.validate(read_yaml(done.stdout))


def vocabulary(schema):
    """Every key and every choice of a schema, but for what the stages know."""
    for name, part in schema.get("properties", {}).items():
        yield name
        yield from (choice for choice in part.get("enum", []) if name not in ("pixels", "dtype"))
        if name != "stages":
            yield from vocabulary(part)
    for part in (schema.get("additionalProperties"), *schema.get("oneOf", []), *schema.get("patternProperties", {}).values()):
        if isinstance(part, dict):
            yield from vocabulary(part)


def test_the_packaged_file_has_every_key_and_choice():
    text = (CONFIG / "framed.yaml").read_text()
    words = {str(word) for word in vocabulary(json.loads(run_framed("--print-schema").stdout))}
    assert {"sessions_per_user", "auto", "drop-newest", "spin_for", "allow"} <= words, words
    assert not [word for word in sorted(words) if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text)]


@pytest.mark.parametrize("empty", [
    ("log",), ("status",), ("gpu",), ("limits",), ("pipelines",), ("pipelines", "cam0", "stages"), ("pipelines", "cam0", "source", "allow"),
    ("pipelines", "cam0", "sink", "allow"), ("pipelines", "cam0", "source", "allow", "users"), ("pipelines", "cam0"),
    ("pipelines", "cam0", "source"), ("pipelines", "cam0", "sink"), ("pipelines", "cam0", "source", "format"), ("lanes",),
], ids=".".join)
def test_what_may_be_left_empty_may_be_so_by_the_schema(place, empty, schema):
    """As where a section's keys are all commented out."""
    document = read_yaml((CONFIG / "framed.yaml").read_text())
    at = document
    for name in empty[:-1]:
        at = at.setdefault(name, {})
    at[empty[-1]] = None
    file = place / "empty.yaml"
    file.write_text(json.dumps(document))
    assert schema.is_valid(document) == (run_framed("--check", "-c", file).returncode == 0)


@pytest.mark.parametrize("mistake", [
    {"slot": 2}, {"slots": 17}, {"slots": "2"}, {"deadline": 50}, {"overload": "drop"}, {"stages": [{"nothing": {}}]},
    {"stages": [{"affine": {"scal": 2}}]}, {"stages": [{"convert": {}}]}, {"sink": {"socket": "a", "file": "b"}},
    {"sink": {"reply": True, "overload": "drop"}}, {"sink": {}},
], ids=str)
def test_mistakes_do_not_fit_the_schema(mistake, schema):
    good = read_yaml((CONFIG / "framed.yaml").read_text())
    assert schema.is_valid(good)
    good["pipelines"]["cam0"].update(mistake)
    assert not schema.is_valid(good)
