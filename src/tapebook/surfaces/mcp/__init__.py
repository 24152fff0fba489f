"""The MCP server: what a chat agent may read of a home, and what a bot may tell it.

`answers` holds the forms of answers and fits them into their size, `tools` has one method per tool, `server` puts
tools, resources and prompts on a server of the SDK. The SDK takes seconds to import, so a command imports it in its
body.
"""
