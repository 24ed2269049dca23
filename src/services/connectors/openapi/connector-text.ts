/** Writes a connector file of the operations of an OpenAPI document, for a person to cut down. */
import type { Limits } from '../../../base/limits.ts';
import { withoutUnseen } from '../../../base/text/shown-text.ts';
import { isRecord } from '../../../base/text/values.ts';
import { PinError } from '../../pinned/pin-error.ts';

import { type OpenApiDocument, ReferenceProblem } from './document.ts';
import { toFlow } from './flow.ts';
import { NameList, toSnakeCase } from './names.ts';
import { type MadeOperation, toOperation } from './operation.ts';
import { authOf, baseOf } from './security.ts';
import { type FoundOperation, type LeftOut, labelOf, matches, operationsOf } from './selection.ts';

export interface WrittenConnector {
  readonly text: string;
  /** How many operations the file has. */
  readonly operations: number;
  /** How many operations the document has. */
  readonly total: number;
  readonly leftOut: readonly LeftOut[];
}

export interface WritingOptions {
  /** Patterns of the wanted operations; all if there are none. */
  readonly only: readonly string[];
  /** Name of the connector; by default made of the document's title. */
  readonly name?: string | undefined;
  /** Name of the document for messages. */
  readonly label: string;
  readonly limits: Limits;
}

const CONNECTOR_NAME_CHARS = 24;
const OPERATION_NAME_CHARS = 32;
/** Bytes of the file that its head takes at most. */
const HEAD_BYTES = 4096;

/** Throws PinError if nothing is wanted that the document has. */
export function writeConnector(document: OpenApiDocument, options: WritingOptions): WrittenConnector {
  const { found, leftOut } = operationsOf(document);
  const wanted = wantedOf(found, options);
  const { pieces, leftOut: more } = piecesOf(wanted, document, options.limits);
  const all = [...leftOut, ...more];
  if (pieces.length === 0) {
    const [first] = all;
    const why = first ? `: ${first.operation}: ${first.why}` : '';
    throw new PinError([`${options.label}: no operation can be taken over${why}`]);
  }
  const text = `${headOf(document, options)}operations:\n${pieces.join('')}`;
  return { text, operations: pieces.length, total: found.length, leftOut: all };
}

function wantedOf(found: readonly FoundOperation[], { only, label }: WritingOptions): FoundOperation[] {
  if (found.length === 0) throw new PinError([`${label}: has no operations`]);
  const idle = only.find((pattern) => !found.some((it) => matches(pattern, it)));
  if (idle !== undefined)
    throw new PinError([`--operations ${idle}: matches none of the ${found.length} operations of ${label}`]);
  return found.filter((it) => only.length === 0 || only.some((pattern) => matches(pattern, it)));
}

/** The operations as the file has them, up to the bounds of a connector. */
function piecesOf(
  wanted: readonly FoundOperation[],
  document: OpenApiDocument,
  { connectorOperationsMax, connectorFileBytesMax }: Limits,
): { pieces: string[]; leftOut: LeftOut[] } {
  const names = new NameList();
  const pieces: string[] = [];
  const leftOut: LeftOut[] = [];
  let bytes = HEAD_BYTES;
  /** Set once the file is full: what is left is not converted, since documents have thousands of operations. */
  let isFull: string | undefined;
  for (const found of wanted) {
    if (pieces.length >= connectorOperationsMax) isFull = `a connector has at most ${connectorOperationsMax}`;
    const made = isFull ?? madeOrWhyNot(found, document);
    if (typeof made === 'string') {
      leftOut.push({ operation: labelOf(found), why: made });
      continue;
    }
    const words = found.id ?? `${found.method} ${found.path}`;
    const given = toSnakeCase(words, { max: OPERATION_NAME_CHARS, other: 'operation' });
    const piece = toPiece(names.add(given, OPERATION_NAME_CHARS), made, found);
    bytes += Buffer.byteLength(piece);
    if (bytes <= connectorFileBytesMax) pieces.push(piece);
    else {
      isFull = `the file would have more than ${connectorFileBytesMax} bytes`;
      leftOut.push({ operation: labelOf(found), why: isFull });
    }
  }
  return { pieces, leftOut };
}

function madeOrWhyNot(found: FoundOperation, document: OpenApiDocument): MadeOperation | string {
  try {
    return toOperation(found, document);
  } catch (error) {
    if (error instanceof ReferenceProblem) return error.message;
    throw error;
  }
}

function headOf(document: OpenApiDocument, { name: given }: WritingOptions): string {
  const { info } = document.root;
  const title = isRecord(info) && typeof info.title === 'string' ? oneLine(info.title, 128) : '';
  const name = given ?? toSnakeCase(title, { max: CONNECTOR_NAME_CHARS, other: 'service' });
  const base = baseOf(document);
  const auth = authOf(document, `${name}_key`);
  const comments = [
    'Made of an OpenAPI document. Cut it down: keep the operations that agents need, write descriptions that say',
    'when to use them, and name only the fields of the output that are wanted. Then: ringfence connector check FILE',
    ...base.notes,
    ...auth.notes,
  ];
  return [
    ...comments.map((it) => `# ${oneLine(it, 400)}\n`),
    `connector: ${toFlow(name)}\n`,
    title === '' ? '' : `title: ${toFlow(title)}\n`,
    base.value === undefined ? '' : `base: ${toFlow(base.value)}\n`,
    `auth: ${toFlow(auth.value)}\n`,
  ].join('');
}

function toPiece(name: string, { operation, notes }: MadeOperation, found: FoundOperation): string {
  const comments = [labelOf(found), ...(notes.length > 0 ? [`left out or to look at: ${notes.join('; ')}`] : [])];
  const members = Object.entries(operation).flatMap(([key, it]) => {
    // A line for each parameter; all else is short.
    if (key !== 'input' || !isRecord(it)) return [`    ${key}: ${toFlow(it)}\n`];
    return [
      '    input:\n',
      ...Object.entries(it).map(([parameter, schema]) => `      ${toFlow(parameter)}: ${toFlow(schema)}\n`),
    ];
  });
  return [...comments.map((it) => `  # ${oneLine(it, 400)}\n`), `  ${toFlow(name)}:\n`, ...members].join('');
}

/** A text of the document for a comment: a line end would end the comment. */
const oneLine = (text: string, max: number): string =>
  withoutUnseen(text.slice(0, 4 * max).replaceAll(/\s+/g, ' '))
    .trim()
    .slice(0, max)
    .toWellFormed();
