/**
 * The child process that extracts and inlines by TypeScript 6: a file's text in, its new text out. It reads hostile
 * sources and settings as data, and runs no code of the workspace.
 */
import { createMessageConnection, StreamMessageReader, StreamMessageWriter } from 'vscode-jsonrpc/node';
import { establishPerimeter } from './perimeter.ts';
import { extract } from './symbols/extraction.ts';
import { inline } from './symbols/inlining.ts';
import type { LocallyRefactored, LocalRefactoring } from './symbols/local-refactoring.ts';
import { FileProject, loadTypeScript6 } from './symbols/typescript6-project.ts';

establishPerimeter(2);

const connection = createMessageConnection(
  new StreamMessageReader(process.stdin),
  new StreamMessageWriter(process.stdout),
);
connection.onRequest('refactor', (request: LocalRefactoring): object => refactored(request));
connection.listen();

/** The project of the last request: what it shares with the next one is not parsed again. */
let last: FileProject | undefined;

function refactored(request: LocalRefactoring): LocallyRefactored {
  const project = new FileProject(loadTypeScript6(), request, last?.parsed);
  try {
    return request.operation === 'inline' ? inline(project, request) : extract(project, request);
  } finally {
    last?.service.dispose();
    last = project;
  }
}
