/** Draws one terminal in a thread of its own: its input is hostile, and the thread may be ended at any time. */
import { parentPort, workerData } from 'node:worker_threads';
import xterm from '@xterm/headless';
import type { TerminalScreen } from '../src/tools/terminals.ts';
import type { FromScreen, ToScreen } from './screen.ts';

/** Larger parameters are clipped: no terminal is that large, and they would only cost time or, repeating a character, memory. */
const PARAMETER_MAX = 1000;
const REPEATED_CHARS_MAX = 4;
const TITLE_CHARS_MAX = 200;

const { cols, rows } = workerData as { cols: number; rows: number };
const terminal = new xterm.Terminal({ cols, rows, scrollback: 0, allowProposedApi: true, logLevel: 'off' });
const port = parentPort as NonNullable<typeof parentPort>;
const send = (message: FromScreen) => port.postMessage(message);
let title = '';

const isTooMuch = (parameters: readonly (number | number[])[]) =>
  parameters.some((it) => typeof it === 'number' && it > PARAMETER_MAX);
const identifiers = [
  ...'@ABCDEFGHIJKLMPSTXZ`ade'.split('').map((final) => ({ final })),
  ...'@A'.split('').map((final) => ({ intermediates: ' ', final })),
  ...'}~'.split('').map((final) => ({ intermediates: "'", final })),
];
for (const it of identifiers) terminal.parser.registerCsiHandler(it, isTooMuch);
terminal.parser.registerCsiHandler({ final: 'b' }, (parameters) => isTooMuch(parameters) || isLong());
terminal.onTitleChange((it) => (title = it.slice(0, TITLE_CHARS_MAX)));
terminal.onData((text) => send({ reply: text.slice(0, 64) }));

/** Whether the last character has so many combining marks that repeating it would fill the memory. */
function isLong(): boolean {
  const { baseY, cursorX, cursorY } = terminal.buffer.active;
  const cell = terminal.buffer.active.getLine(baseY + cursorY)?.getCell(Math.max(0, cursorX - 1));
  return (cell?.getChars().length ?? 0) > REPEATED_CHARS_MAX;
}

port.on('message', (message: ToScreen) => {
  if ('chunk' in message) terminal.write(message.chunk, () => send({ taken: message.chunk.length }));
  else if ('size' in message) terminal.resize(message.size.cols, message.size.rows);
  // Answered after all earlier writes.
  else terminal.write('', () => send({ picture: picture(), id: message.picture }));
});

function picture(): TerminalScreen {
  const { active } = terminal.buffer;
  const lines = Array.from({ length: terminal.rows }, (_, row) =>
    plain(active.getLine(active.baseY + row)?.translateToString(true) ?? '').trimEnd(),
  );
  const last = lines.findLastIndex((it) => it !== '');
  return {
    text: lines.slice(0, last + 1).join('\n'),
    cursor: { row: active.cursorY + 1, column: Math.min(active.cursorX, terminal.cols - 1) + 1 },
    cols: terminal.cols,
    rows: terminal.rows,
    ...(title !== '' && { title: plain(title) }),
    fullScreen: active.type === 'alternate',
  };
}

const CELL_MARKS_MAX = 8;

/** Removes what could affect a viewer: control characters, reordering of text, piles of combining marks. */
function plain(text: string): string {
  return text
    .replace(/[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, '\ufffd')
    .replace(new RegExp(`(\\p{M}{${CELL_MARKS_MAX}})\\p{M}+`, 'gu'), '$1');
}
