// A client by the TypeScript SDK: lists the tools and calls one, over stdio or streamable HTTP; prints what came as JSON.
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

async function main() {
  const { stdio, url, token, calls } = JSON.parse(process.argv[2]);
  const transport = stdio
    ? new StdioClientTransport(stdio)
    : new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { authorization: `Bearer ${token}` } } });
  const client = new Client({ name: "test", version: "1" });
  await client.connect(transport);
  const listed = await client.listTools();
  const answers = [];
  // The SDK checks structured answers against the schema of their tool, and throws when one does not fit.
  for (const call of calls) answers.push(await client.callTool(call));
  const resources = (await client.listResources()).resources.map((each) => each.uri);
  const prompts = (await client.listPrompts()).prompts.map((each) => each.name);
  console.log(JSON.stringify({ server: client.getServerVersion(), tools: listed.tools, answers, resources, prompts }));
  await client.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
