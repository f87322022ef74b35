"""schemathesis makes up requests from `GET /openapi.json`, right ones and wrong ones, and holds
every answer against it."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import urllib.request

from case import SdkCase

CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
    "use_after_free",
]
# For a run that hangs.
LIMIT = 600
HERE = os.path.dirname(os.path.abspath(__file__))


def operations(document):
    """Every operation by the name that the report has for it."""
    return {
        f"{method.upper()} {path}"
        for path, item in document["paths"].items()
        for method in item
        if method in ("get", "post", "delete")
    }


def tried(report):
    """The statuses that each operation was answered with."""
    seen = {}
    with open(report, encoding="utf-8") as lines:
        for line in lines:
            recorder = json.loads(line).get("ScenarioFinished", {}).get("recorder", {})
            for one in recorder.get("interactions", {}).values():
                if one.get("response"):
                    seen.setdefault(recorder["label"], set()).add(one["response"]["status_code"])
    return seen


class Schema(SdkCase):
    scenario = os.path.join(HERE, "schema.toml")

    def test_every_answer_is_as_described(self):
        address = f"{self.gateway.url}/openapi.json"
        with urllib.request.urlopen(address, timeout=5) as answer:
            document = json.load(answer)
        with tempfile.TemporaryDirectory(prefix="ibeam-schema-") as folder:
            report = os.path.join(folder, "report.ndjson")
            run = subprocess.run(
                [
                    sys.executable, "-B", "-m", "schemathesis.cli", "run", address,
                    "--checks", ",".join(CHECKS),
                    # One worker: several threads in `ast` trip over each other in Python 3.11.
                    "--max-examples", "30", "--generation-deterministic", "--workers", "1",
                    "--request-timeout", "20", "--suppress-health-check", "all",
                    "--no-color", "--report", "ndjson", "--report-ndjson-path", report,
                ],
                cwd=folder,
                env={**os.environ, "SCHEMATHESIS_HOOKS": "schema_hooks", "PYTHONPATH": HERE},
                timeout=LIMIT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            self.assertEqual(run.returncode, 0, run.stdout[-20_000:])
            seen = tried(report)
        # Nothing was left out but the document, which was read above, and what can be done from
        # nothing was done.
        self.assertEqual(operations(document) - seen.keys(), {"GET /openapi.json"})
        creating = {name for name in seen if name.startswith("POST") and "{" not in name}
        self.assertEqual({name for name in creating if 200 not in seen[name]}, set(), seen)


if __name__ == "__main__":
    unittest.main()
