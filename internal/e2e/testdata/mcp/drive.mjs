// Drives every tool of one server with an official TypeScript client and prints what came
// back as one JSON object. Its one argument says how:
//   {"client": 1 | 2, "version": "...", "dir": "...", "command": ["...", ...], "env": {...}, "cwd": "..."}   over stdio
//   {"client": 1 | 2, "version": "...", "dir": "...", "url": "...", "token": "..."}                          over HTTP
import { readFileSync } from 'node:fs';

const how = JSON.parse(process.argv[2]);
const info = { name: 'drive', version: '1' };

async function connect() {
  const requestInit = { headers: { Authorization: `Bearer ${how.token}` } };
  if (how.client === 1) {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const client = new Client(info);
    await client.connect(how.url
      ? new StreamableHTTPClientTransport(new URL(how.url), { requestInit })
      : new StdioClientTransport({ command: how.command[0], args: how.command.slice(1), env: how.env, cwd: how.cwd }));
    return client;
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const modern = how.version >= '2026-07-28';
  const client = new Client(info, modern
    ? { versionNegotiation: { mode: { pin: how.version } } }
    : { supportedProtocolVersions: [how.version], versionNegotiation: { mode: 'legacy' } });
  await client.connect(how.url
    ? new StreamableHTTPClientTransport(new URL(how.url), { requestInit })
    : new StdioClientTransport({ command: how.command[0], args: how.command.slice(1), env: how.env, cwd: how.cwd }));
  return client;
}

// made gives a value for each argument that a tool asks for and this file does not know.
function made(schema) {
  const args = {};
  for (const name of schema.required ?? []) {
    const type = schema.properties?.[name]?.type;
    args[name] = type === 'integer' ? 1 : type === 'boolean' ? false : type === 'array' ? [] : type === 'object' ? {} : `${how.dir}/a.txt`;
  }
  return args;
}

const client = await connect();
const out = { version: client.getNegotiatedProtocolVersion?.() ?? client.transport?.protocolVersion ?? '', server: client.getServerVersion()?.name, tools: {}, wrong: [] };
const { tools } = await client.listTools();
const kept = { dir: how.dir };
for (const call of JSON.parse(readFileSync(new URL('calls.json', import.meta.url)))) {
  const args = JSON.parse(JSON.stringify(call.args).replace(/\{\{(\w+)\}\}/g, (_, k) => kept[k]));
  const r = await client.callTool({ name: call.tool, arguments: args });
  const facts = r.structuredContent ?? {};
  const text = (r.content ?? []).map(c => c.text ?? '').join('');
  out.tools[call.tool] = facts.status;
  if (facts.status !== call.status || (r.isError ?? false) !== (call.status === 'failed') || (call.text ?? text) !== text)
    out.wrong.push({ call, facts, text, isError: r.isError });
  if (call.keep) kept[call.keep] = facts[call.keep];
}
for (const tool of tools) {
  if (out.tools[tool.name]) continue;
  const r = await client.callTool({ name: tool.name, arguments: made(tool.inputSchema) });
  out.tools[tool.name] = r.structuredContent?.status ?? 'no status';
}
out.listed = tools.map(t => t.name);
console.log(JSON.stringify(out));
await client.close();
process.exit(0);
