/** Draws docs/images/session.svg, the README's picture, from a real session: `node script/session-picture.ts`. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const repository = join(import.meta.dirname, '..');
const folder = mkdtempSync(join(tmpdir(), 'ringfence-picture-'));
const workspace = join(folder, 'notes');
mkdirSync(workspace);
writeFileSync(join(workspace, '.env'), 'TOKEN=1\n');
writeFileSync(join(workspace, 'plan.md'), '# Plan\n');

const PATH = `${join(repository, 'bin')}:${join(repository, 'node_modules/.bin')}:/usr/bin:/bin`;

function run(command: string): string {
  const options = { cwd: workspace, env: { HOME: folder, PATH }, encoding: 'utf8' } as const;
  return spawnSync('bash', ['-c', `${command} 2>&1`], options).stdout.trimEnd();
}

const COLUMNS = 110;
const LINE_PX = 19;
const CHAR_PX = 8.43;
const MARGIN_PX = 16;

interface Line {
  readonly kind: 'prompt' | 'output' | 'note';
  readonly text: string;
}

/** Cuts a long line at the last space that fits. */
function wrapped(text: string): string[] {
  if (text.length <= COLUMNS) return [text];
  const at = text.lastIndexOf(' ', COLUMNS);
  const end = at > 0 ? at : COLUMNS;
  return [text.slice(0, end), ...wrapped(`  ${text.slice(end).trimStart()}`)];
}

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll(' ', '\u00a0');

const COLOURS = { prompt: '#7ee787', output: '#e6edf3', note: '#8b949e' };

function draw(lines: readonly Line[]): string {
  const width = Math.ceil(COLUMNS * CHAR_PX) + 2 * MARGIN_PX;
  const height = lines.length * LINE_PX + 2 * MARGIN_PX;
  const rows = lines.map(
    ({ kind, text }, at) =>
      `<text x="${MARGIN_PX}" y="${MARGIN_PX + (at + 0.75) * LINE_PX}" fill="${COLOURS[kind]}">${escaped(text)}</text>`,
  );
  const font = 'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14"';
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ${font}>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
${rows.join('\n')}
</svg>
`;
}

/** A command with its output, without lines that only tell ids, times and the daemon's address. */
function shown(command: string, note?: string): Line[] {
  const output = run(command)
    .split('\n')
    .filter((it) => it !== '' && !/^ringfence: (started a daemon|\w+ · host)|^ {2}call /.test(it));
  return [
    ...(note === undefined ? [] : [{ kind: 'note', text: `# ${note}` } as const]),
    { kind: 'prompt', text: `$ ${command}` },
    ...output.flatMap(wrapped).map((text) => ({ kind: 'output', text }) as const),
  ];
}

try {
  run('ringfence call file_list');
  const denied = shown("ringfence call terminal_execute command='cat .env'", 'secrets stay with the person');
  const asked = shown('ringfence call file_delete path=plan.md', 'what destroys is asked about');
  const [id = ''] = /a_[0-9a-f]+/.exec(asked.map(({ text }) => text).join(' ')) ?? [];
  const approved = shown(`ringfence approvals approve ${id} && ringfence call file_delete path=plan.md && ls`);
  const undone = shown('ringfence undo --last && ls', 'and it can be taken back');
  mkdirSync(join(repository, 'docs/images'), { recursive: true });
  writeFileSync(join(repository, 'docs/images/session.svg'), draw([...denied, ...asked, ...approved, ...undone]));
} finally {
  run('ringfence stop');
  rmSync(folder, { recursive: true, force: true });
}
