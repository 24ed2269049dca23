/** The operations of an OpenAPI document, and which of them are wanted. */
import { matchPieces } from '../../../base/text/glob.ts';
import { isRecord } from '../../../base/text/values.ts';
import { type Node, type OpenApiDocument, ReferenceProblem } from './document.ts';

export interface FoundOperation {
  /** In capitals. */
  readonly method: string;
  readonly path: string;
  readonly id: string | undefined;
  readonly node: Node;
  /** What the path says for all of its methods. */
  readonly shared: Node;
}

/** An operation that is left out, and why. */
export interface LeftOut {
  /** `GET /path`. */
  readonly operation: string;
  readonly why: string;
}

/** Methods that connector files have. */
const METHODS = ['get', 'head', 'post', 'put', 'patch', 'delete'] as const;

export const labelOf = ({ method, path }: Pick<FoundOperation, 'method' | 'path'>): string => `${method} ${path}`;

/** All operations in the order of the document; paths that refer to elsewhere are left out. */
export function operationsOf(document: OpenApiDocument): { found: FoundOperation[]; leftOut: LeftOut[] } {
  const leftOut: LeftOut[] = [];
  const found = Object.entries(document.root.paths as Node).flatMap(([path, given]): FoundOperation[] => {
    try {
      const shared = path.startsWith('/') ? document.objectAt(given) : undefined;
      return shared ? METHODS.flatMap((method) => operationAt(shared, { method, path })) : [];
    } catch (error) {
      if (!(error instanceof ReferenceProblem)) throw error;
      leftOut.push({ operation: path, why: error.message });
      return [];
    }
  });
  return { found, leftOut };
}

function operationAt(shared: Node, { method, path }: { method: string; path: string }): FoundOperation[] {
  const node = Object.hasOwn(shared, method) ? shared[method] : undefined;
  if (!isRecord(node)) return [];
  const id = typeof node.operationId === 'string' ? node.operationId.slice(0, 200) : undefined;
  return [{ method: method.toUpperCase(), path, id, node, shared }];
}

/**
 * Whether an operation matches a pattern: an operationId, a path, a method, or a method and a path, in which `*` stands
 * for any characters.
 */
export function matches(pattern: string, { method, path, id }: FoundOperation): boolean {
  const [, asked, rest] = /^([A-Z]+)(?: (\/.*))?$/.exec(pattern) ?? [];
  if (asked !== undefined) return asked === method && (rest === undefined || matchesText(rest, path));
  return pattern.startsWith('/') ? matchesText(pattern, path) : id !== undefined && matchesText(pattern, id);
}

const matchesText = (pattern: string, text: string): boolean => matchPieces(pattern.split('*'), text);
