/** The Python client, built as it is published, installed into a clean environment and run against real daemons. */
import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findProgram } from '../../src/sandbox/find-program.ts';
import { encode } from '../../src/wire/protocol/encoder.ts';
import { type OpenDaemon, openDaemon, repository, ringfence, temporaryDir } from '../support/daemon.ts';

const run = promisify(execFile);
const source = join(repository, 'clients/python');

/** A Python of the version that the client needs, with what makes environments. */
function findPython(): string | undefined {
  const check = 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))';
  return ['/usr/bin/python3', findProgram('python3')].find((it) => {
    if (it === undefined || !existsSync(it)) return false;
    try {
      execFileSync(it, ['-c', check], { stdio: 'ignore' });
      return true;
    } catch {
      return false; // Too old, or without venv: Debian has that in a package of its own.
    }
  });
}
const python = findPython();

function hasMsgpack(): boolean {
  try {
    execFileSync(python ?? '', ['-c', 'import msgpack'], { stdio: 'ignore' });
    return true;
  } catch {
    return false; // No Python, or one without it.
  }
}

/** Values as the daemon writes them, for the client to read. */
const MESSAGES = [
  ...[null, true, false, 0, 1, 127, 128, 255, 256, 65_535, 65_536, 2 ** 31, 2 ** 32, 2 ** 53 - 1],
  ...[-1, -32, -33, -128, -129, -32_769, -(2 ** 31) - 1, 1.5, -0.25, 1e300],
  ...['', 'a', 'ä€😀', 'x'.repeat(31), 'x'.repeat(32), 'x'.repeat(300), 'x'.repeat(70_000)],
  ...[[], [1, 'two', [3]], {}, { a: { b: [null, { c: true }] } }, Array.from({ length: 20 }, (_, at) => at)],
];

describe.skipIf(python === undefined)('the Python client (skipped where no Python 3.10 with venv is installed)', () => {
  const folder = temporaryDir('python');
  const environment = join(folder, 'venv');
  const installed = join(environment, 'bin/python');
  let allowing: OpenDaemon;
  let asking: OpenDaemon;
  beforeAll(async () => {
    [allowing, asking] = await Promise.all([
      openDaemon(),
      openDaemon({ policy: 'tiers:\n  execute: { decision: ask }\napprovals: { headless: wait }\n' }),
    ]);
    // Its bytecode would lie in the sources.
    await run(python as string, ['-B', join(source, 'build_backend.py'), join(folder, 'dist')]);
    await run(python as string, ['-m', 'venv', environment]);
    const wheel = join(folder, 'dist/ringfence-0.1.0-py3-none-any.whl');
    await run(installed, ['-m', 'pip', 'install', '--no-index', '--quiet', wheel]);
  }, 120_000);
  afterAll(async () => {
    await Promise.all([allowing, asking].map((it) => it?.[Symbol.asyncDispose]()));
    rmSync(folder, { recursive: true, force: true });
  });
  const env = (more: Record<string, string> = {}) => ({
    PATH: process.env.PATH ?? '',
    HOME: folder,
    PYTHONDONTWRITEBYTECODE: '1',
    RINGFENCE_SOCKET: allowing.socket,
    ...more,
  });

  /** What the tests of the client are given, as variables of their environment. */
  function variables(): Record<string, string> {
    const messages = join(folder, 'messages.json');
    const samples = MESSAGES.map((value) => ({ value, hex: encode(value).toString('hex') }));
    writeFileSync(messages, JSON.stringify(samples));
    const given = {
      SOCKET: allowing.socket,
      WORKSPACE: allowing.workspace,
      ASKING_SOCKET: asking.socket,
      ASKING_STATE: asking.stateDir,
      ASKING_WORKSPACE: asking.workspace,
      MESSAGES: messages,
      COMMAND: `${process.execPath} ${ringfence}`,
    };
    return Object.fromEntries(Object.entries(given).map(([name, value]) => [`RINGFENCE_TEST_${name}`, value]));
  }

  test("the Python client's own tests pass, by the installed wheel", async () => {
    const { stderr } = await run(installed, ['-W', 'error', '-m', 'unittest', 'discover', '-v', '-s', 'tests'], {
      cwd: source,
      env: env(variables()),
    });
    expect(stderr).toMatch(/^Ran \d\d tests/m);
    expect(stderr).toMatch(/^OK$/m);
  }, 180_000);

  test.skipIf(!hasMsgpack())(
    'messages and calls are the same by msgpack (skipped where it is not installed)',
    async () => {
      const tests = ['test_messages', 'test_calls'];
      const { stderr } = await run(python as string, ['-B', '-W', 'error', '-m', 'unittest', '-v', ...tests], {
        cwd: join(source, 'tests'),
        env: env({ ...variables(), PYTHONPATH: join(source, 'src') }),
      });
      expect(stderr).toMatch(/^OK$/m);
    },
    180_000,
  );

  test('the sdist installs without an index, and gives the same modules as the wheel', async () => {
    await run(installed, ['-m', 'venv', join(folder, 'other')]);
    const other = join(folder, 'other/bin/python');
    const sdist = join(folder, 'dist/ringfence-0.1.0.tar.gz');
    await run(other, ['-m', 'pip', 'install', '--no-index', '--quiet', sdist]);
    const files =
      'import importlib.metadata as m; print("\\n".join(sorted(str(it) for it in m.files("ringfence") if str(it).startswith("ringfence/") and it.suffix == ".py")))';
    const [a, b] = await Promise.all([installed, other].map((it) => run(it, ['-c', files])));
    expect(a?.stdout).toBe(b?.stdout);
    expect(a?.stdout).toContain('ringfence/adapters/langchain.py\n');
    const { stdout } = await run(other, ['-c', 'import importlib.metadata as m; print(m.requires("ringfence"))']);
    expect(stdout).toBe(`['msgpack>=1.0; extra == "fast"']\n`);
  }, 120_000);

  test('python -m ringfence calls a tool, and its exit codes tell what came of it', async () => {
    writeFileSync(join(allowing.workspace, 'a.txt'), 'one\n');
    const cli = (...args: string[]) =>
      run(installed, ['-m', 'ringfence', ...args], { cwd: allowing.workspace, env: env() });
    expect(await cli('call', 'file_read', 'path=a.txt')).toMatchObject({ stdout: expect.stringMatching(/^one\n/) });
    const { stdout } = await cli('call', 'terminal_execute', '{"command": "echo two"}', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ success: true, data: { stdout: 'two\n' } });
    expect((await cli('tools')).stdout).toMatch(/^file_read {2}/m);
    await expect(cli('call', 'file_read', 'path=../x')).rejects.toMatchObject({ code: 1, stderr: /ACCESS_DENIED/ });
    await expect(cli('call', 'file_read', 'nothing')).rejects.toMatchObject({ code: 2 });
    await expect(cli('tools', '--socket', '/nonexistent/s', '--workspace', '/nonexistent')).rejects.toMatchObject({
      code: 3,
    });
  });

  test('the agent of the documentation works, in 20 lines', async () => {
    const page = readFileSync(join(repository, 'docs/how-to/python.md'), 'utf8');
    const agent = /```python agent\n([\s\S]*?)```/.exec(page)?.[1] ?? '';
    expect(
      agent
        .trim()
        .split('\n')
        .filter((it) => it.trim() !== '').length,
    ).toBeLessThanOrEqual(20);
    const answers = [
      { tool_calls: [toolCall('t1', 'file_write', { path: 'notes.md', content: 'by an agent\n' })] },
      {
        tool_calls: [toolCall('t2', 'file_read', { path: 'notes.md' }), toolCall('t3', 'file_read', { path: '.env' })],
      },
      { content: 'done' },
    ];
    const asked: { messages: { role: string; content: string }[]; tools: unknown[] }[] = [];
    const model = createServer(async (request, response) => {
      asked.push((await json(request)) as (typeof asked)[number]);
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ choices: [{ message: { role: 'assistant', ...answers[asked.length - 1] } }] }));
    });
    await new Promise<void>((resolve) => model.listen(0, '127.0.0.1', resolve));
    try {
      const { port } = model.address() as { port: number };
      mkdirSync(join(folder, 'agent'), { recursive: true });
      writeFileSync(join(folder, 'agent/agent.py'), agent);
      const modelVariables = { OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`, OPENAI_API_KEY: 'k', OPENAI_MODEL: 'm' };
      const { stdout } = await run(installed, [join(folder, 'agent/agent.py'), 'write a note'], {
        cwd: allowing.workspace,
        env: env(modelVariables),
      });
      expect(stdout).toBe('done\n');
    } finally {
      model.close();
    }
    expect(asked[0]?.messages).toEqual([{ role: 'user', content: 'write a note' }]);
    expect(asked[2]?.messages.slice(-2)).toMatchObject([
      { role: 'tool', tool_call_id: 't2', content: expect.stringMatching(/^by an agent\n/) },
      { role: 'tool', tool_call_id: 't3', content: expect.stringMatching(/^SENSITIVE_FILE/) },
    ]);
  });
});

const toolCall = (id: string, name: string, input: object) => ({
  id,
  type: 'function',
  function: { name, arguments: JSON.stringify(input) },
});
