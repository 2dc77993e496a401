"""Sets runs beside each other: what differs in their configurations and in their results.

Reads run folders only, without torch, so that the commands answer at once. Reading order: run,
configuration, figures, metrics, comparability, verdict; then listing (``pretrain runs``), report
(``pretrain compare``), charts and page (its ``--html``).
"""
