// A client by the TypeScript SDK: lists the tools and calls some, over stdio or streamable HTTP; prints what came as JSON.
// The first generation of the SDK speaks the protocol of 2025-11-25, the second also that of 2026-07-28.
const { stdio, url, token, calls, protocol } = JSON.parse(process.argv[2]);
const isSecond = protocol === "2026-07-28";
const { Client, StdioClientTransport, StreamableHTTPClientTransport } = isSecond
  ? { ...require("@modelcontextprotocol/client"), ...require("@modelcontextprotocol/client/stdio") }
  : {
      ...require("@modelcontextprotocol/sdk/client/index.js"),
      ...require("@modelcontextprotocol/sdk/client/stdio.js"),
      ...require("@modelcontextprotocol/sdk/client/streamableHttp.js"),
    };

async function main() {
  const transport = stdio
    ? new StdioClientTransport(stdio)
    : new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { authorization: `Bearer ${token}` } } });
  const options = isSecond ? { versionNegotiation: { mode: { pin: protocol } } } : {};
  const client = new Client({ name: "test", version: "1" }, options);
  let spoken;
  // Every client tells its transport what was agreed on.
  const agree = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = (version) => agree?.((spoken = version)) ?? (spoken = version);
  await client.connect(transport);
  const listed = await client.listTools();
  const answers = [];
  // The SDK checks structured answers against the schema of their tool, and throws when one does not fit.
  for (const call of calls) answers.push(await client.callTool(call));
  const resources = (await client.listResources()).resources.map((each) => each.uri);
  const prompts = (await client.listPrompts()).prompts.map((each) => each.name);
  const server = client.getServerVersion();
  console.log(JSON.stringify({ server, spoken, tools: listed.tools, answers, resources, prompts }));
  await client.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
