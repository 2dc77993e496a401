"""``pretrain doctor``: look at a machine, and at a configuration on it, before the long run."""

import sys

from pretrain.commands.configuration_checks import ConfigurationChecks
from pretrain.commands.estimate import EstimateCLI
from pretrain.commands.machine_checks import Finding, machine_findings
from pretrain.data.files import default_cache_dir
from pretrain.errors import UserError
from pretrain.runs.console import hush_libraries, say


def run(argv: list[str]) -> None:
    """Print each finding with its remedy; exit with status 1 if one is a fault.

    Without options it is the machine alone; else those of ``fit``.
    """
    hush_libraries()
    findings = _show(machine_findings("runs", default_cache_dir()))
    if argv:
        try:
            checks = ConfigurationChecks(EstimateCLI("doctor", argv))
        except UserError as error:
            findings += _show([Finding("fault", "configuration", str(error))])
        else:
            findings += _show(checks.findings())
    levels = [finding.level for finding in findings]
    say(f"{levels.count('fault')} faults, {levels.count('warning')} warnings.")
    sys.exit(int("fault" in levels))


def _show(findings: list[Finding]) -> list[Finding]:
    for finding in findings:
        say(str(finding))
    return findings
