/** The first step of our processes, beside what Node does in threads meanwhile. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, rmSync } from 'node:fs';
import { join } from 'node:path';
import { rootCertificates } from 'node:tls';
import { expect, test } from 'vitest';
import { repository, temporaryDir } from '../../support/daemon.ts';

test('the perimeter leaves Node the file of authorities that it still reads', async () => {
  const folder = temporaryDir('perimeter');
  const pipe = join(folder, 'authorities.pem');
  execFileSync('mkfifo', [pipe]);
  const code = `import { getCACertificates } from 'node:tls';
    import { establishPerimeter } from '${repository}/workers/perimeter.ts';
    establishPerimeter(2);
    console.log(getCACertificates('extra').length);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
    env: { NODE_EXTRA_CA_CERTS: pipe },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const file = createWriteStream(pipe);
    // Its other end is open: Node reads it, and has not got to its end.
    await once(file, 'open');
    const said = once(child.stdout, 'data');
    await Promise.race([said, new Promise((resolve) => setTimeout(resolve, 1_000))]);
    file.on('error', () => {}).end(`${rootCertificates[0]}\n`);
    expect(String((await said)[0])).toBe('1\n');
  } finally {
    child.kill();
    rmSync(folder, { recursive: true });
  }
});
