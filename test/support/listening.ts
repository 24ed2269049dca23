/** Programs of the machine that listen on its loopback, each in a process of its own: a test's own process may be the daemon's. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

export interface ListeningProgram extends AsyncDisposable {
  readonly port: number;
  readonly process: ChildProcess;
}

const ECHO = `
  const [host, port, answer] = process.argv.slice(1);
  const server = require('node:net').createServer({ allowHalfOpen: true }, (it) => {
    it.on('error', () => {});
    if (answer === undefined) it.write('hello\\n'), it.pipe(it);
    else it.end(answer);
  });
  server.listen(Number(port), host, () => console.log(server.address().port));
`;

/** Starts a program that prints its port when it listens. */
async function started(program: string, args: readonly string[]): Promise<ListeningProgram> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(child.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
  return {
    port: Number.parseInt(line.toString(), 10),
    process: child,
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
  };
}

/** A server of Node that greets and echoes, or answers each connection with a fixed text. */
export const listenWithNode = (options: { host?: string; port?: number; answer?: string } = {}) =>
  started(process.execPath, [
    '-e',
    ECHO,
    options.host ?? '127.0.0.1',
    `${options.port ?? 0}`,
    ...(options.answer === undefined ? [] : [options.answer]),
  ]);

const PERL = `
  use IO::Socket::INET; $| = 1;
  my $server = IO::Socket::INET->new(Listen => 8, LocalAddr => '127.0.0.1', LocalPort => $ARGV[0], ReuseAddr => 1) or die;
  print $server->sockport, "\\n";
  while (my $it = $server->accept) { print $it "other\\n"; close $it }
`;

/** Another program at a port. */
export const listenWithPerl = (port: number) => started('/usr/bin/perl', ['-e', PERL, `${port}`]);
