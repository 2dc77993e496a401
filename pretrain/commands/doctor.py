"""``pretrain doctor``: look at a machine, and at a configuration on it, before the long run."""

import sys

from pretrain.commands.configuration_checks import ConfigurationChecks
from pretrain.commands.estimate import EstimateCLI
from pretrain.commands.machine_checks import Finding, default_disks, machine_findings
from pretrain.errors import UserError
from pretrain.runs.console import hush_libraries, say


def run(argv: list[str]) -> None:
    """Print each finding with its remedy; exit with status 1 if one is a fault.

    Without options it is the machine alone; else those of ``fit``.
    """
    hush_libraries()
    checks: ConfigurationChecks | Finding | None = None
    if argv:  # first, since --help and the like say all that there is to say
        try:
            checks = ConfigurationChecks(EstimateCLI("doctor", argv))
        except UserError as error:
            checks = Finding("fault", "configuration", str(error))
    findings = _show(machine_findings())
    if checks is None:
        findings += _show(default_disks())
    elif isinstance(checks, Finding):
        findings += _show([checks])
    else:
        findings += _show(checks.findings())
    levels = [finding.level for finding in findings]
    say(f"{levels.count('fault')} faults, {levels.count('warning')} warnings.")
    sys.exit(int("fault" in levels))


def _show(findings: list[Finding]) -> list[Finding]:
    for finding in findings:
        say(str(finding))
    return findings
