"""The desk: the processes that run deployments, and what a person does with them.

takes:  a home, the settings of its desk, a clock.
gives:  decisions made on time (scheduler, worker, executor, librarian), control, health and verification.
never:  decides: every decision is a tick.
"""
