/** Reads server-sent events: the streams in which models answer. */
import { ToolError } from '../../src/base/errors.ts';
import { parseJson } from '../../src/base/text/json.ts';
import { isRecord } from '../../src/base/text/values.ts';

/** The JSON objects of the events of a stream. Throws UPSTREAM_FAILED for a line that is too long and for data that are none. */
export function* eventsIn(stream: string, lineCharsMax: number): Generator<Record<string, unknown>> {
  let data: string[] = [];
  for (const line of linesIn(stream, lineCharsMax)) {
    if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5));
    // An empty line ends an event; names of events and comments tell nothing that the data don't.
    if (line !== '' || data.length === 0) continue;
    yield* objectIn(data.join('\n'));
    data = [];
  }
  // Some servers leave out the last empty line.
  if (data.length > 0) yield* objectIn(data.join('\n'));
}

/** Ends the stream of chat completions; anything behind it would be an error of the server. */
const DONE = '[DONE]';

function* objectIn(text: string): Generator<Record<string, unknown>> {
  if (text.trim() === DONE) return;
  let value: unknown;
  try {
    value = parseJson(text);
  } catch {
    // A SyntaxError.
  }
  if (!isRecord(value))
    throw new ToolError(
      'UPSTREAM_FAILED',
      `the model's server sent an event that is no JSON object: ${text.slice(0, 100)}`,
    );
  yield value;
}

function* linesIn(text: string, charsMax: number): Generator<string> {
  for (let start = 0; start < text.length; ) {
    const found = text.indexOf('\n', start);
    const end = found < 0 ? text.length : found;
    if (end - start > charsMax)
      throw new ToolError(
        'UPSTREAM_FAILED',
        `the model's server sent a line of ${end - start} characters; at most ${charsMax} are read`,
      );
    yield text.slice(start, text[end - 1] === '\r' && end > start ? end - 1 : end);
    start = end + 1;
  }
}
