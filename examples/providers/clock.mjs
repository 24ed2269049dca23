// The smallest MCP server: one tool. Ringfence starts it in a sandbox of its own, see config.yaml beside it.
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

serveStdio(() => {
  const server = new McpServer({ name: 'clock', version: '1.0.0' });
  server.registerTool('now', { description: 'Tells date and time in UTC.' }, async () => ({
    content: [{ type: 'text', text: new Date().toISOString() }],
  }));
  return server;
});
