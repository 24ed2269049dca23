/** The language servers that a thread keeps between jobs. */
import type { Limits } from '../../src/base/limits.ts';
import type { Powers } from '../../src/base/powers.ts';
import { GraphCache } from '../code/graph/import-graph.ts';
import { SyntaxParser } from '../syntax-parser.ts';
import { TypeScriptCompiler } from './typescript-compiler.ts';
import { TypeScriptServer } from './typescript-server.ts';

/** Servers are started on their first use. */
export class LanguageServers implements Disposable {
  readonly typescript: TypeScriptServer;
  readonly compiler: TypeScriptCompiler;
  readonly parser: SyntaxParser;
  readonly graphs = new GraphCache();

  constructor(limits: Limits, powers: Powers) {
    this.typescript = new TypeScriptServer(limits, powers);
    this.compiler = new TypeScriptCompiler(limits, powers);
    this.parser = new SyntaxParser(limits, powers);
  }

  [Symbol.dispose](): void {
    this.typescript[Symbol.dispose]();
    this.parser[Symbol.dispose]();
  }
}
