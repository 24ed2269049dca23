// Hands standard input and output to `ringfence mcp`, wherever that is installed; says what to do where it is not.
import { spawn } from 'node:child_process';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';

// Desktop programs are started without the folders that a shell adds.
const folders = [join(homedir(), '.local/bin'), join(homedir(), '.npm-global/bin'), '/usr/local/bin'];
const env = { ...process.env, PATH: [process.env.PATH, ...folders].filter(Boolean).join(delimiter) };
const child = spawn('ringfence', ['mcp', ...process.argv.slice(2)], { stdio: 'inherit', env });
child.on('error', (error) => {
  const why = error.code === 'ENOENT' ? 'it is not installed on this machine' : error.message;
  const message = `ringfence could not be started: ${why}. Install it with: npm install -g ringfence`;
  console.error(message);
  refuseAll(message);
});
child.on('exit', (code, signal) => {
  process.exitCode = signal ? 1 : (code ?? 1);
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));

/** The client shows the answer to its first request; standard error it often keeps to itself. */
function refuseAll(message) {
  process.exitCode = 1;
  process.stdin.setEncoding('utf8');
  let text = '';
  process.stdin.on('data', (chunk) => {
    text += chunk;
    const lines = text.split('\n');
    text = lines.pop().slice(-65_536);
    for (const line of lines) answer(line, message);
  });
}

function answer(line, message) {
  try {
    const { id } = JSON.parse(line);
    if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32603, message } }));
  } catch {} // Not a message.
}
