/**
 * TypeScript 6 over the project of one file: the file, what it imports, and the project's global declarations. It only
 * reads, and loads no plugin: a language service without a server has none. Runs in a child process of its own.
 */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type ts from 'typescript6';
import type { LocalRefactoring } from './local-refactoring.ts';

export type TypeScript6 = typeof ts;

/** The package itself, which may not be installed: require throws then. */
export const loadTypeScript6 = (): TypeScript6 => createRequire(import.meta.url)('typescript6') as TypeScript6;

/** How many texts were given: each is a version of its own for the registry, which outlives the projects. */
let texts = 0;

export class FileProject {
  readonly ts: TypeScript6;
  readonly service: ts.LanguageService;
  /** The absolute path of the file. */
  readonly file: string;
  readonly format: ts.FormatCodeSettings;
  /** The parsed files, to be given to the next project before this one ends. */
  readonly parsed: ts.DocumentRegistry;
  #text = '';

  constructor(ts: TypeScript6, { workspace, path, text }: LocalRefactoring, parsed = ts.createDocumentRegistry()) {
    this.ts = ts;
    this.parsed = parsed;
    this.file = join(workspace, path);
    this.text = text;
    this.format = { ...ts.getDefaultFormatCodeSettings(newLineOf(text)), ...indentationOf(text) };
    const { options, declarations } = settingsOf(ts, workspace, this.file);
    this.service = ts.createLanguageService(this.#host(workspace, options, [this.file, ...declarations]), parsed);
  }

  get text(): string {
    return this.#text;
  }

  set text(text: string) {
    this.#text = text;
    texts += 1;
  }

  get source(): ts.SourceFile {
    return this.program.getSourceFile(this.file) as ts.SourceFile;
  }

  get program(): ts.Program {
    return this.service.getProgram() as ts.Program;
  }

  #host(workspace: string, options: ts.CompilerOptions, roots: readonly string[]): ts.LanguageServiceHost {
    const { ts, file } = this;
    const read = (path: string) => (path === file ? this.#text : ts.sys.readFile(path));
    return {
      getCompilationSettings: () => options,
      getScriptFileNames: () => [...roots],
      getScriptVersion: (path) => (path === file ? `text ${texts}` : versionOf(ts, path)),
      getScriptSnapshot: (path) => {
        const text = read(path);
        return text === undefined ? undefined : ts.ScriptSnapshot.fromString(text);
      },
      getCurrentDirectory: () => workspace,
      getDefaultLibFileName: (it) => ts.getDefaultLibFilePath(it),
      fileExists: ts.sys.fileExists,
      readFile: read,
      directoryExists: ts.sys.directoryExists,
      getDirectories: ts.sys.getDirectories,
      ...(ts.sys.realpath && { realpath: ts.sys.realpath }),
    };
  }
}

const versionOf = (ts: TypeScript6, path: string): string =>
  `${ts.sys.getModifiedTime?.(path)?.getTime()} ${ts.sys.getFileSize?.(path)}`;

/** The options of the nearest project in the workspace, and its files of declarations. */
function settingsOf(ts: TypeScript6, workspace: string, file: string) {
  const config = configOf(ts, workspace, dirname(file));
  const { options, fileNames } =
    config === undefined
      ? { options: {}, fileNames: [] }
      : ts.parseJsonConfigFileContent(ts.readConfigFile(config, ts.sys.readFile).config, ts.sys, dirname(config));
  const declarations = fileNames.filter((it) => /\.d\.[cm]?ts$/.test(it) && it !== file);
  return { options: { ...options, noEmit: true, allowJs: true }, declarations };
}

function configOf(ts: TypeScript6, workspace: string, directory: string): string | undefined {
  const found = ['tsconfig.json', 'jsconfig.json'].map((it) => join(directory, it)).find(ts.sys.fileExists);
  return found ?? (directory === workspace ? undefined : configOf(ts, workspace, dirname(directory)));
}

const newLineOf = (text: string): string => (/\r\n/.test(text) && !/[^\r]\n/.test(text) ? '\r\n' : '\n');

/** The indentation of the first block. */
function indentationOf(text: string): ts.FormatCodeSettings {
  const [, indent = '  '] = /[{[(]\r?\n([ \t]+)\S/.exec(text) ?? [];
  const size = indent.startsWith('\t') ? TAB_SIZE : indent.length;
  return { indentSize: size, tabSize: size, convertTabsToSpaces: !indent.startsWith('\t') };
}

const TAB_SIZE = 4;
