"""The pipeline file as it was checked, and the versions of the libraries."""

from typing import Any

import yaml

from ..markup import joined, table, tag
from ..page import Section


def spec_section(facts: dict[str, Any], result: dict[str, Any]) -> Section:
    """Return the spec and the libraries; where they are not known, where they are."""
    checked, libraries = facts.get("spec"), facts.get("libraries") or {}
    text = yaml.safe_dump(checked, sort_keys=False, allow_unicode=True, width=100) if checked else None
    shown = tag("pre", text) if text else tag("p", "The spec is in spec.json beside this page.")
    versions = table(("library", "version"), sorted(libraries.items())) if libraries else tag(
        "p", "The versions of the libraries are in the manifest.json of each artifact.")
    return Section("spec", "Spec and versions", joined((shown, tag("h3", "Libraries"), versions)))
