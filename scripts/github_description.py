"""Write the part of GitHub's OpenAPI description that the tests use: python scripts/github_description.py

Fetches the whole description with npm. `--check` writes nothing, and fails if the files are not what would be written.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGE = "@octokit/openapi@23.0.2"
MEMBERS = {"api.github.com.json": "package/generated/api.github.com.json", "LICENSE": "package/LICENSE"}
TARGET = Path(__file__).parents[1] / "tests" / "github" / "api" / "description"

REPOSITORY = "/repos/{owner}/{repo}"
OPERATIONS = (
    ("get", "/user"),
    ("get", REPOSITORY),
    ("get", f"{REPOSITORY}/actions/artifacts/{{artifact_id}}/{{archive_format}}"),
    ("get", f"{REPOSITORY}/actions/runs/{{run_id}}"),
    ("get", f"{REPOSITORY}/actions/runs/{{run_id}}/artifacts"),
    ("get", f"{REPOSITORY}/actions/workflows/{{workflow_id}}"),
    ("get", f"{REPOSITORY}/actions/workflows/{{workflow_id}}/runs"),
    ("get", f"{REPOSITORY}/branches/{{branch}}"),
    ("get", f"{REPOSITORY}/compare/{{basehead}}"),
    ("get", f"{REPOSITORY}/contents/{{path}}"),
    ("get", f"{REPOSITORY}/git/blobs/{{file_sha}}"),
    ("get", f"{REPOSITORY}/git/commits/{{commit_sha}}"),
    ("get", f"{REPOSITORY}/git/trees/{{tree_sha}}"),
    ("get", f"{REPOSITORY}/issues/{{issue_number}}/comments"),
    ("post", f"{REPOSITORY}/issues/{{issue_number}}/comments"),
    ("patch", f"{REPOSITORY}/issues/comments/{{comment_id}}"),
    ("delete", f"{REPOSITORY}/issues/comments/{{comment_id}}"),
    ("get", f"{REPOSITORY}/pulls"),
    ("get", f"{REPOSITORY}/tarball/{{ref}}"),
)
"""What Ragstone asks GitHub: method and path."""
EXAMPLES = (
    "artifact",
    "blob",
    "branch-get",
    "commit-comparison",
    "content-file-response-if-content-is-a-directory",
    "content-file-response-if-content-is-a-file",
    "content-file-response-if-content-is-a-symlink",
    "full-repository-default-response",
    "git-commit",
    "git-tree-response-recursively-retrieving-a-tree",
    "issue-comment",
    "private-user-response-with-public-and-private-profile-information",
    "pull-request-simple-items",
    "workflow",
    "workflow-run",
)
"""The published replies that the fake GitHub starts from."""

MEDIA_TYPE = "application/json"
PROSE = ("description", "summary", "title", "example", "examples", "externalDocs", "x-github-breaking-changes")
NAMED_SCHEMAS = ("properties", "patternProperties")
DATA = ("default", "enum", "required")


def pruned_schema(schema: Any) -> Any:
    """A schema without its prose. Properties may have the name of a keyword, such as "description"."""
    if isinstance(schema, list):
        return [pruned_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    pruned: dict[str, Any] = {}
    for key, value in schema.items():
        if key in PROSE:
            continue
        if key in NAMED_SCHEMAS:
            pruned[key] = {name: pruned_schema(named) for name, named in value.items()}
        elif key in DATA:
            pruned[key] = value
        else:
            pruned[key] = pruned_schema(value)
    return pruned


def pruned_content(message: dict[str, Any]) -> dict[str, Any]:
    """A request body or a response: the schema of its JSON."""
    if "$ref" in message:
        return message
    pruned: dict[str, Any] = {key: message[key] for key in ("description", "required") if key in message}
    if MEDIA_TYPE in message.get("content", {}):
        pruned["content"] = {MEDIA_TYPE: {"schema": pruned_schema(message["content"][MEDIA_TYPE]["schema"])}}
    return pruned


def pruned_operation(operation: dict[str, Any]) -> dict[str, Any]:
    pruned = {
        "operationId": operation["operationId"],
        "parameters": pruned_schema(operation.get("parameters", [])),
        "responses": {status: pruned_content(reply) for status, reply in operation["responses"].items()},
    }
    if "requestBody" in operation:
        pruned["requestBody"] = pruned_content(operation["requestBody"])
    return pruned


def pruned_component(kind: str, component: dict[str, Any]) -> dict[str, Any]:
    if kind == "responses":
        return pruned_content(component)
    pruned: dict[str, Any] = pruned_schema(component)
    return pruned


def references(node: Any) -> Iterator[str]:
    """All that a node refers to, also by the mapping of a discriminator."""
    if isinstance(node, list):
        for item in node:
            yield from references(item)
    elif isinstance(node, dict):
        for value in node.values():
            yield from references(value)
    elif isinstance(node, str) and node.startswith("#/components/"):
        yield node


def pruned_document(document: dict[str, Any]) -> dict[str, Any]:
    """The operations and examples above, and all that they refer to."""
    paths: dict[str, Any] = {}
    for method, path in OPERATIONS:
        paths.setdefault(path, {})[method] = pruned_operation(document["paths"][path][method])
    source = document["components"]
    components: dict[str, Any] = {"examples": {name: {"value": source["examples"][name]["value"]} for name in EXAMPLES}}
    waiting = list(references(paths))
    while waiting:
        kind, name = waiting.pop().removeprefix("#/components/").split("/")
        group = components.setdefault(kind, {})
        if name not in group:
            group[name] = pruned_component(kind, source[kind][name])
            waiting += references(group[name])
    info = {key: document["info"][key] for key in ("title", "version", "license")}
    return {"openapi": document["openapi"], "info": info, "paths": paths, "components": components}


def fetch() -> dict[str, bytes]:
    """The description and its licence, from the package."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", PACKAGE, "--silent", "--pack-destination", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as opened:
            return {name: opened.extractfile(member).read() for name, member in MEMBERS.items()}  # type: ignore[union-attr]


def as_text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def is_written(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare")
    options = parser.parse_args()
    files = fetch()
    files["api.github.com.json"] = as_text(pruned_document(json.loads(files["api.github.com.json"]))).encode()
    changed = [name for name, content in files.items() if not is_written(TARGET / name, content)]
    if options.check:
        for name in changed:
            print(f"{TARGET / name} is not what is published: run make github-description", file=sys.stderr)
        return 1 if changed else 0
    TARGET.mkdir(exist_ok=True)
    for name in changed:
        (TARGET / name).write_bytes(files[name])
    return 0


if __name__ == "__main__":
    sys.exit(main())
