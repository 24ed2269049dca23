/** A hundred ways in which agents start bash, each through `ringfence wrap` and through bash itself. */
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { endOf, runCli } from '../support/cli.ts';
import { type OpenDaemon, openDaemon, removeTree } from '../support/daemon.ts';

interface Way {
  readonly args: readonly string[];
  readonly stdin?: string;
  /** Whether standard error must be the same, too; bash names its line otherwise in a sandbox. */
  readonly errors?: boolean;
}

const lc = (command: string, more: Partial<Way> = {}): Way => ({ args: ['-lc', command], ...more });

const QUOTING = [
  `echo "it's"`,
  `echo 'say "hi"'`,
  'echo "a\\"b"',
  "echo $'tab\\there'",
  'echo a\\ b',
  'echo "$((1+2))" $(echo sub) `echo tick`',
  'echo {a,b}{1,2}',
  'echo "*" \'*\'',
  'printf "%s|" "a b" c "" d',
  'echo "two\nlines"',
  'echo ünïcödé 日本 🎉',
  'x="a  b"; echo $x "$x"',
  'a=(1 "2 3" 4); echo "${#a[@]}" "${a[1]}"',
  'declare -A m=([k]=v); echo "${m[k]}"',
  'echo "${x:-default}" "${HOME:+set}"',
  'v=hello; echo "${v^^}" "${v:1:3}" "${v/l/L}" "${#v}"',
  'echo \\$HOME "\\$HOME"',
  'echo one;echo two;',
  'echo a # a comment',
  "echo '#no comment'",
  'echo -e "a\\nb"; echo -n end',
  'printf "\\x41\\n"',
  'eval "echo \\"in eval\\""',
  'echo "trailing space "',
  'IFS=,; set -- a,b; echo $1 $#',
].map((it) => lc(it));

const HERE_DOCUMENTS = [
  'cat <<X\nhere $((2*3))\nX',
  "cat <<'X'\nraw $HOME\nX",
  'cat <<-X\n\tindented\n\tX',
  'cat <<A <<B\na\nA\nb\nB',
  'while read -r l; do echo "[$l]"; done <<X\n1\n2\nX',
  'tr a-z A-Z <<< "a string"',
  'cat <<X | sort -r\n1\n2\nX',
  'cat > out-here.txt <<X && cat out-here.txt\nwritten\nX',
  'bash <<X\necho inner \\$\\$ | wc -w\nX',
  'cat <<X\nX',
].map((it) => lc(it));

const EXIT_CODES = [
  'exit 0',
  'exit 1',
  'exit 42',
  'exit 255',
  'exit 256',
  'false',
  '! false',
  'true && false',
  'false || exit 9',
  '(exit 5)',
  'no-such-program-of-a-test',
  './not-executable.txt',
  'test -f nowhere',
  'set -e; false; echo not reached',
  'set -o pipefail; false | true',
  'false | true',
  'trap "echo bye" EXIT; exit 3',
  'return 3 2>/dev/null; echo $?',
  'f() { return 7; }; f',
  'if then',
  'echo "unclosed',
].map((it) => lc(it));

const SIGNALS = [
  'kill -9 $$',
  'kill -TERM $$',
  'kill -INT $$; echo after',
  'trap "echo caught; exit 4" TERM; kill -TERM $$; sleep 5',
  'timeout -s KILL 0.1 sleep 5; echo $?',
  'timeout 0.1 sleep 5; echo $?',
  'sleep 5 & kill %1; wait %1; echo $?',
  '(kill -SEGV $BASHPID); echo $?',
].map((it) => lc(it));

const STREAMS = [
  lc('echo out; echo err >&2', { errors: true }),
  lc('echo err >&2; exit 3', { errors: false }),
  lc('{ echo a; echo b >&2; } 2>&1'),
  lc('echo gone >/dev/null'),
  lc('echo x | tee copy.txt | cat; cat copy.txt'),
  lc('exec 3>&1; echo three >&3'),
  lc('cat', { stdin: 'given' }),
  lc('wc -c', { stdin: 'x'.repeat(100_000) }),
  lc('head -1', { stdin: `first\n${'y\n'.repeat(10_000)}` }),
  lc('read -r a b; echo "$b $a"', { stdin: 'one two\n' }),
  lc('cat; echo end', { stdin: '' }),
  lc('seq 1 20000 | tail -1'),
  lc('seq 1 3000'),
  lc('yes | head -3'),
  lc('printf "no line end"'),
  lc('printf "\\377\\376" | od -An -tx1'),
  lc('printf "a\\0b" | wc -c'),
  lc('ls nowhere-at-all 2>/dev/null'),
  lc('cat < given.txt'),
  lc('diff <(echo 1) <(echo 1) && echo same'),
];

const PIPES_AND_JOBS = [
  'seq 5 | grep -v 3 | paste -sd+ | bc 2>/dev/null || echo 12',
  'echo a | { read x; echo "got $x"; }',
  'echo $(seq 3 | wc -l)',
  'false | echo "${PIPESTATUS[0]}"; echo "${PIPESTATUS[@]}"',
  'sleep 0.1 & wait; echo waited',
  'echo bg & wait $!; echo $?',
  'for i in 1 2 3; do (echo $i > job-$i) & done; wait; cat job-1 job-2 job-3',
  'coproc cat; echo hi >&"${COPROC[1]}"; read -r l <&"${COPROC[0]}"; echo $l',
  'xargs -n1 echo item <<< "a b c"',
  'find . -name given.txt -exec basename {} \\;',
  'time -p true 2>/dev/null',
  'nohup echo hup 2>/dev/null',
  'seq 3 | while read n; do echo $((n*n)); done',
].map((it) => lc(it));

const FOLDERS_AND_VARIABLES: Way[] = [
  lc('cd sub && basename "$PWD" && cd .. && cat given.txt'),
  lc('cd nowhere 2>/dev/null; echo $?'),
  lc('export A=1; bash -c "echo $A"'),
  lc('A=2 bash -c \'echo "$A"\''),
  lc('unset PATH_OF_NOBODY; echo "[$PATH_OF_NOBODY]"'),
  lc('cd sub; sh -c "basename \\$(pwd)"'),
  lc('mkdir -p d/e && cd d/e && touch f && cd - >/dev/null && ls d/e'),
  lc('pushd sub >/dev/null; popd >/dev/null; cat given.txt'),
  lc('umask 077; touch private.txt; stat -c %a private.txt'),
  lc('ulimit -n >/dev/null; echo $?'),
];

const ARGUMENTS: Way[] = [
  { args: ['-c', 'echo "$0"-"$1"-"$2"-$#', 'zero', 'one', 'two words'] },
  { args: ['-l', '-c', 'echo apart'] },
  { args: ['-c', '--', 'echo dashes'] },
  { args: ['-ec', 'false; echo not reached'] },
  { args: ['-euo', 'pipefail', '-c', 'echo "$UNSET_OF_A_TEST"'] },
  { args: ['--norc', '--noprofile', '-c', 'echo bare'] },
  { args: ['-s', 'a', 'b c'], stdin: 'echo "$#:$2"\n' },
  { args: [], stdin: 'cd sub\nX=5\nbasename "$PWD"\necho $X\nexit 6\n' },
  { args: ['script.sh', 'x', 'y z'] },
  { args: ['-x', '+x', '-c', 'echo traced'] },
  { args: ['-c', ''] },
  { args: ['-c', 'echo "$@"', '--', '-n', '--json'] },
  { args: ['nowhere.sh'] },
];

const WAYS = [
  ...[QUOTING, HERE_DOCUMENTS, EXIT_CODES, SIGNALS],
  ...[STREAMS, PIPES_AND_JOBS, FOLDERS_AND_VARIABLES, ARGUMENTS],
].flat();

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The agent: starts bash as its PATH gives it, for each way of a file, four at once, and tells how each ended. */
const AGENT = `
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { buffer } from 'node:stream/consumers';
const ways = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const ended = [];
async function work(queue) {
  for (const [index, way] of queue) {
    const child = spawn('bash', way.args);
    child.stdin.on('error', () => {});
    child.stdin.end(way.stdin ?? '');
    const [code, stdout, stderr] = await Promise.all([
      new Promise((resolve) => child.once('exit', (code) => resolve(code))), buffer(child.stdout), buffer(child.stderr),
    ]);
    ended[index] = { code, stdout: stdout.toString('latin1'), stderr: stderr.toString('latin1') };
  }
}
const queue = ways.entries();
await Promise.all([1, 2, 3, 4].map(() => work(queue)));
process.stdout.write(JSON.stringify(ended));
`;

function fill(folder: string): void {
  mkdirSync(join(folder, 'sub'));
  writeFileSync(join(folder, 'given.txt'), 'given\n');
  writeFileSync(join(folder, 'not-executable.txt'), 'echo no\n');
  writeFileSync(join(folder, 'script.sh'), 'echo "$# $2"; exit 5\n');
}

async function bash({ args, stdin = '' }: Way, cwd: string): Promise<Ended> {
  const child = spawn('/bin/bash', args, { cwd, env: { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: '/tmp' } });
  child.stdin.on('error', () => {}); // It ended without reading.
  child.stdin.end(stdin);
  const [code, stdout, stderr] = await Promise.all([endOf(child), buffer(child.stdout), buffer(child.stderr)]);
  // A signal that ends bash is told as shells tell it.
  const byShell = code ?? { SIGKILL: 137, SIGTERM: 143, SIGINT: 130 }[child.signalCode as 'SIGKILL'] ?? null;
  return { code: byShell, stdout: stdout.toString('latin1'), stderr: stderr.toString('latin1') };
}

let daemon: OpenDaemon;
const theirs = mkdtempSync(join(tmpdir(), 'ringfence-ways-'));
let ours: readonly Ended[] = [];
beforeAll(async () => {
  daemon = await openDaemon();
  fill(daemon.workspace);
  fill(theirs);
  const [agent, ways] = [join(daemon.stateDir, 'agent.mjs'), join(daemon.stateDir, 'ways.json')];
  writeFileSync(agent, AGENT);
  writeFileSync(ways, JSON.stringify(WAYS));
  const run = await runCli(daemon, ['wrap', '--', process.execPath, agent, ways]);
  expect(run).toMatchObject({ code: 0, stderr: '' });
  ours = JSON.parse(run.stdout);
}, 600_000);
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  removeTree(theirs);
});

test('there are a hundred', () => expect(WAYS.length).toBeGreaterThanOrEqual(100));

test.each(WAYS.map((way, index) => [index, JSON.stringify(way.args).slice(0, 120), way] as const))(
  'way %i of starting bash gives what bash gives: %s',
  async (index, _, way) => {
    const [{ stderr, ...mine }, real] = [ours[index] as Ended, await bash(way, theirs)];
    expect(mine).toEqual({ code: real.code, stdout: real.stdout });
    if (way.errors) expect(stderr).toBe(real.stderr);
  },
);
