/** Programs of container images: they run on the image's files, and in the sandbox of commands with all that holds there. */
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import type { Approval } from '../../src/store/approvals/approval.ts';
import { canServeOthers, processesWith, startDaemon, type TestDaemon, temporaryDir, until } from '../support/daemon.ts';
import { type ImageStore, missingPodman, openImageStore } from '../support/podman.ts';

const IMAGE = 'localhost/plain:1';

describe.skipIf(missingPodman)('docker_run', () => {
  let store: ImageStore;
  let daemon: TestDaemon;
  let client: Client;

  beforeAll(async () => {
    store = openImageStore();
    store.add(IMAGE, ['ENV GREETING=hello', 'CMD ["/bin/sh","-c","echo $GREETING"]', 'VOLUME /data'], (folder) => {
      mkdirSync(join(folder, 'etc'));
      mkdirSync(join(folder, 'data'));
      writeFileSync(join(folder, 'etc/os-release'), 'ID=plain\n');
      writeFileSync(join(folder, 'set-id'), '#!/bin/sh\n');
      chmodSync(join(folder, 'set-id'), 0o4755);
    });
    daemon = await startDaemon({ env: store.env });
    client = await daemon.connect();
  });
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
    store[Symbol.dispose]();
  });
  beforeEach(() => {
    writeFileSync(join(daemon.workspace, '.env'), 'KEY=secret-value\n');
  });

  const call = (input: object, by = client) => by.call('docker_run', { image: IMAGE, ...input });
  async function run(line: string, more: object = {}) {
    const result = await call({ command: ['sh', '-c', line], ...more });
    const { stdout = '', stderr = '', exitCode = -1 } = result.success ? result.data : {};
    return { stdout, stderr, exitCode, metadata: result.metadata, error: result.success ? undefined : result.error };
  }

  test("an image's own program runs, or the one that is given, with its variables and exit code", async () => {
    expect(await call({})).toMatchObject({ success: true, data: { stdout: 'hello\n', exitCode: 0 } });
    expect(await run('echo $GREETING $MORE; pwd; exit 3', { env: { MORE: 'x' } })).toMatchObject({
      stdout: `hello x\n${daemon.workspace}\n`,
      exitCode: 3,
    });
    expect(await call({ entrypoint: ['/bin/echo'], command: ['a b', "c'd"] })).toMatchObject({
      data: { stdout: "a b c'd\n" },
    });
    const none = await call({ command: ['no-such-program'] });
    expect(none).toMatchObject({ data: { exitCode: 127, stderr: 'no-such-program: not found in the image\n' } });
  });

  test("the image's files are its system, read-only, and none of the machine's", async () => {
    const { stdout, stderr } = await run('cat /etc/os-release; ls /; ls /usr; touch /bin/x; touch /data/x && ls /data');
    expect(stdout).toMatch(/^ID=plain\n/);
    expect(stdout).not.toContain('usr');
    expect(stdout).toMatch(/x\n$/);
    expect(stderr).toContain('Read-only file system');
    // No file of it gives another user's rights, in a sandbox or outside.
    expect((await run('ls -l /set-id; id')).stdout).toMatch(/^-rwxr-xr-x/);
  });

  test('secrets of the workspace are masked, and what a program changes there is undone', async () => {
    const result = await call({ command: ['sh', '-c', 'cat .env; echo made >new; echo $?'] });
    expect(JSON.stringify(result)).not.toContain('secret-value');
    expect(result.metadata).toMatchObject({ undo: 'full', filesChanged: [{ path: 'new', kind: 'create' }] });
    expect(readFileSync(join(daemon.workspace, 'new'), 'utf8')).toBe('made\n');
    await client.request('calls.undo', { callId: result.callId });
    expect(existsSync(join(daemon.workspace, 'new'))).toBe(false);
  });

  test('a name that programs of the person run does not stay', async () => {
    const { metadata } = await run('echo "evil" >.envrc');
    expect(metadata.quarantined).toMatchObject([{ path: '.envrc' }]);
    expect(existsSync(join(daemon.workspace, '.envrc'))).toBe(false);
  });

  test('a program reaches no host but by the proxy, which refuses what no list names', async () => {
    const asked =
      'printf "CONNECT example.com:443 HTTP/1.1\\r\\nHost: example.com\\r\\n\\r\\n" | nc 127.0.0.1 3128 | head -n1';
    const { stdout, metadata } = await run(asked);
    expect(stdout).toContain('403');
    expect(metadata.denied).toMatchObject([{ target: 'example.com:443' }]);
    expect((await run('nc -w 2 1.1.1.1 443 </dev/null || echo none')).stdout).toBe('none\n');
  });

  test.skipIf(!canServeOthers)("a workspace of another user than the daemon's is refused with what to do", async () => {
    const workspace = temporaryDir('other');
    chownSync(workspace, 65_534, 65_534);
    await using other = await startDaemon({ env: store.env, workspace });
    await using session = await other.connect();
    expect(await call({}, session)).toMatchObject({ success: false, error: { code: 'UNSUPPORTED' } });
  });

  test('a program that takes too long is ended with all that it started', async () => {
    const { error } = await run('sleep 98765 & sleep 98765', { timeout: 3_000 });
    expect(error?.code).toBe('TIMEOUT');
    await until(() => processesWith('98765').length === 0);
  });

  test('memory, processes and files are bounded as for commands', async () => {
    const { stdout } = await run('ulimit -f; ulimit -n; ulimit -H -n');
    const [files = 0, open = 0, most = 0] = stdout.trim().split('\n').map(Number);
    expect(files).toBeGreaterThan(0);
    expect(open).toBeGreaterThan(0);
    expect(most).toBe(open);
  });

  test('no container is left behind, nor one of a daemon that was killed', async () => {
    store.podman('create', '--label', 'dev.ringfence.unpack', '--network', 'none', IMAGE, '/none');
    await using other = await startDaemon({ env: store.env });
    await using session = await other.connect();
    expect(await call({}, session)).toMatchObject({ success: true });
    expect(store.podman('ps', '--all', '--quiet')).toBe('');
  });

  test('an image whose links lead out of it shows nothing of the machine and keeps the workspace', async () => {
    const [, first = ''] = daemon.workspace.split('/');
    store.add('localhost/links:1', [`VOLUME /proc/x`, 'VOLUME /run/enter'], (folder) => {
      for (const [name, to] of [
        [first, '../oldroot/etc'],
        ['etc', '/proc/1/root/etc'],
        ['usr', '../../../../usr'],
        ['run', '/'],
      ] as const)
        symlinkSync(to, join(folder, name));
    });
    const ran = await call({
      image: 'localhost/links:1',
      command: ['sh', '-c', 'pwd; ls /usr /etc; cat .env; echo x >kept'],
    });
    expect(ran).toMatchObject({ success: true, data: { stdout: expect.stringMatching(`^${daemon.workspace}\n`) } });
    expect(JSON.stringify(ran)).not.toContain('secret-value');
    expect(JSON.stringify(ran)).not.toContain('passwd');
    expect(readFileSync(join(daemon.workspace, 'kept'), 'utf8')).toBe('x\n');
  });

  test('an image that is not here is pulled only through the door of its registry', async () => {
    await using operator = await daemon.connect({ role: 'operator' });
    await operator.request('events.subscribe', { topics: ['approvals'] });
    const image = 'registry.invalid/some/thing:1';
    const answered = async (decision: 'approve' | 'deny') => {
      const running = call({ image });
      let asked: Approval | undefined;
      await until(async () => {
        const { approvals } = (await operator.request('approvals.list', {})) as { approvals: Approval[] };
        asked = approvals.find((it) => it.door);
        return asked !== undefined;
      });
      await operator.request('approvals.resolve', { approvalId: asked?.approvalId, decision });
      return { door: asked?.door, result: await running };
    };
    const yes = await answered('approve');
    expect(yes.door).toMatchObject({ kind: 'host', target: 'registry.invalid:443' });
    // The name is in no DNS.
    expect(yes.result).toMatchObject({ success: false, error: { code: 'UPSTREAM_FAILED' } });
    const no = await answered('deny');
    expect(no.result).toMatchObject({ success: false, error: { code: 'ACCESS_DENIED' } });
  });

  test.each(['docker-archive:/etc/hostname', 'oci:/etc/x', 'dir:/etc/x', 'containers-storage:/x', 'host:70000/x'])(
    'a name that leads an engine to a file, as %s, is refused',
    async (image) => {
      expect(await call({ image })).toMatchObject({ success: false, error: { code: 'INPUT_INVALID' } });
    },
  );

  test('a preview is refused, since nothing of it is known beforehand', async () => {
    const result = await client.call('docker_run', { image: IMAGE, command: ['touch', 'never'] }, { preview: true });
    expect(result).toMatchObject({ success: false, error: { code: 'UNSUPPORTED' } });
    expect(existsSync(join(daemon.workspace, 'never'))).toBe(false);
  });

  test('where nobody is there to ask, the error says what to pull', async () => {
    const result = await call({ image: 'alpine:3' });
    expect(result).toMatchObject({ success: false, error: { code: 'ACCESS_DENIED' } });
    expect(JSON.stringify(result)).toContain('podman pull docker.io/library/alpine:3');
  });

  test.each([
    ['no engine', undefined, 'no container engine is installed'],
    ["Docker's engine with root's rights", 'echo \'["name=seccomp,profile=builtin"]\'', "has root's rights"],
    ["Docker's engine that does not answer", 'exit 1', 'does not answer'],
  ])('%s is refused with what to do instead', async (_, docker, message) => {
    const folder = temporaryDir('path');
    if (docker !== undefined) writeFileSync(join(folder, 'docker'), `#!/bin/sh\n${docker}\n`, { mode: 0o755 });
    await using other = await startDaemon({ env: { PATH: folder } });
    await using session = await other.connect();
    const result = await call({}, session);
    expect(result).toMatchObject({
      success: false,
      error: { code: 'UNSUPPORTED', message: expect.stringContaining(message) },
    });
    expect(JSON.stringify(result)).toContain('apt-get install podman');
  });
});
