/**
 * Signs the newest commit with the person's key. Git would start a program of theirs for that; here a program outside of the sandbox gets
 * the commit's text by a pipe and gives the signature, which becomes a header of a new commit with the same content.
 */
import { connecting, programAt } from '../context/program-pipe.ts';
import type { ToolContext } from '../tool.ts';
import type { Git } from './git.ts';

const SIGNATURE_BYTES_MAX = 32 * 1024;

/** Sends so many bytes (`$1`) of standard input, and gives the answer. */
const ASK = `${connecting(programAt('sign'))}
{ echo "$1"; cat; } >&3
cat <&3`;

/** Signs HEAD, if it still is the commit with the message; gives whether it did. */
export async function signHead(ctx: ToolContext, git: Git, message: string): Promise<boolean> {
  if (!ctx.signs) return false;
  const head = (await git.run(['rev-parse', '--verify', 'HEAD'])).stdout.toString('utf8').trim();
  const bytes = (await git.run(['cat-file', 'commit', head])).stdout;
  const commit = bytes.toString('utf8');
  const end = commit.indexOf('\n\n');
  // Another call may have moved HEAD: a person says yes to this commit alone.
  if (end < 0 || linesOf(commit.slice(end)) !== linesOf(message)) return false;
  // In another encoding, such as that of a name in the repository's config.
  if (!Buffer.from(commit).equals(bytes)) return false;
  const { stdout } = await ctx.program({
    program: 'bash',
    args: ['-c', ASK, 'sign', `${bytes.length}`],
    cwd: '.',
    env: {},
    stdin: commit,
    bytesMax: SIGNATURE_BYTES_MAX,
  });
  const signature = stdout.toString('latin1').trim();
  if (!/^-----BEGIN [A-Z ]+-----\n[\x20-\x7e\n]+\n-----END [A-Z ]+-----$/.test(signature)) return false;
  const name = head.length > 40 ? 'gpgsig-sha256' : 'gpgsig';
  const header = `\n${name} ${signature.replaceAll('\n', '\n ')}`;
  const stdin = `${commit.slice(0, end)}${header}${commit.slice(end)}`;
  const written = await git.try(['hash-object', '-t', 'commit', '-w', '--stdin'], { stdin });
  const signed = written.stdout.toString('latin1').trim();
  if (written.exitCode !== 0) return false;
  const [subject = ''] = message.trim().split('\n');
  const moved = await git.try(['update-ref', '-m', `commit (signed): ${subject}`, 'HEAD', signed, head]);
  return moved.exitCode === 0;
}

/** The lines of a message as git keeps them, but for empty ones. */
const linesOf = (text: string): string =>
  text
    .split('\n')
    .map((it) => it.trimEnd())
    .filter(Boolean)
    .join('\n');
