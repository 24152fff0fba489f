"""An engine for Tapebook from a package of its own: docs/add-a-plugin.md walks through it."""
