/**
 * Puts the value of a variable where the variable is used, by TypeScript 6. TypeScript looks only at the syntax, so
 * what would mean something else afterwards is refused here: a value that is made or computed more than once, later or
 * never, and a name in it that is another one where the variable is used, or is written to.
 */
import type ts from 'typescript6';
import { PREFERENCES, reasonOf, textAfter } from './extraction.ts';
import type { LocallyRefactored, LocalRefactoring } from './local-refactoring.ts';
import type { FileProject, TypeScript6 } from './typescript6-project.ts';

const REFACTOR = 'Inline variable';

export function inline(project: FileProject, { start }: LocalRefactoring): LocallyRefactored {
  const { service, file, format } = project;
  const offered = service
    .getApplicableRefactors(file, start, PREFERENCES, 'invoked', 'refactor.inline', true)
    .flatMap((it) => it.actions);
  if (!offered.some((it) => it.notApplicableReason === undefined))
    return { refused: reasonOf(offered), code: 'INPUT_INVALID' };
  const otherMeaning = otherMeaningOf(project, start);
  if (otherMeaning !== undefined) return { refused: otherMeaning, code: 'CONFLICT' };
  const done = service.getEditsForRefactor(file, format, start, REFACTOR, REFACTOR, PREFERENCES);
  const text = done && textAfter(project, done.edits);
  return text === undefined
    ? { refused: 'TypeScript 6 gave no edits of this file alone', code: 'INPUT_INVALID' }
    : { text };
}

/** How the code would mean something else afterwards; undefined if nothing shows that it would. */
function otherMeaningOf({ ts, service, program, source, file }: FileProject, start: number): string | undefined {
  const checker = program.getTypeChecker();
  const declaration = checker.getSymbolAtLocation(nodeAt(ts, source, start))?.valueDeclaration;
  if (!declaration || !ts.isVariableDeclaration(declaration) || !declaration.initializer)
    return 'it is not a variable with a value';
  const { initializer: value, name } = declaration;
  const uses = (service.getReferencesAtPosition(file, name.getStart(source)) ?? [])
    .map((it) => nodeAt(ts, source, it.textSpan.start))
    .filter((it) => it !== name);
  if (isMadeAnew(ts, value)) {
    const [only] = uses;
    if (!only || uses.length > 1) return `its value would be made ${uses.length} times, and not once`;
    if (repeatedBetween(ts, only, declaration)) return 'its value would be made in a loop or a function, and not once';
  }
  const ownThis = uses.find((it) => thisOf(ts, it) !== thisOf(ts, declaration));
  if (ownThis && mentionsThis(ts, value)) return `\`this\` means something else in line ${lineOf(source, ownThis)}`;
  for (const it of namesIn(ts, value)) {
    const meant = ts.isShorthandPropertyAssignment(it.parent)
      ? checker.getShorthandAssignmentValueSymbol(it.parent)
      : checker.getSymbolAtLocation(it);
    if (!meant || meant.declarations?.some((own) => own.pos >= value.pos && own.end <= value.end)) continue;
    const other = uses.find((use) => !isVisible(checker, use, { name: it, meant, ts }));
    if (other) return `\`${it.text}\` means something else in line ${lineOf(source, other)}`;
    const isWritten = (service.getReferencesAtPosition(file, it.getStart(source)) ?? [])
      .filter((use) => use.isWriteAccess && use.fileName === file)
      .map((use) => nodeAt(ts, source, use.textSpan.start))
      .some((use) => isWrite(ts, use) && !meant.declarations?.includes(use.parent as ts.Declaration));
    if (isWritten) return `\`${it.text}\`, of which its value is made, is written to`;
  }
  return undefined;
}

/** Whether a name that TypeScript counts as written to is: `{ x }` counts always, and is a write only as a pattern. */
function isWrite(ts: TypeScript6, name: ts.Node): boolean {
  if (!ts.isShorthandPropertyAssignment(name.parent)) return true;
  const isPart = (it: ts.Node) =>
    ts.isObjectLiteralExpression(it) || ts.isArrayLiteralExpression(it) || ts.isObjectLiteralElement(it);
  let pattern: ts.Node = name.parent;
  while (isPart(pattern.parent)) pattern = pattern.parent;
  const { parent } = pattern;
  if (ts.isBinaryExpression(parent)) return parent.left === pattern && isAssignment(ts, parent.operatorToken.kind);
  return (ts.isForOfStatement(parent) || ts.isForInStatement(parent)) && parent.initializer === pattern;
}

/** The function, class or file that tells what `this` and `arguments` are. */
const thisOf = (ts: TypeScript6, node: ts.Node): ts.Node | undefined =>
  ts.findAncestor(
    node.parent,
    (it) => ts.isSourceFile(it) || ts.isClassLike(it) || (ts.isFunctionLike(it) && !ts.isArrowFunction(it)),
  );

const mentionsThis = (ts: TypeScript6, node: ts.Node): boolean =>
  [ts.SyntaxKind.ThisKeyword, ts.SyntaxKind.SuperKeyword].includes(node.kind) ||
  (ts.isIdentifier(node) && node.text === 'arguments') ||
  ts.forEachChild(node, (it) => mentionsThis(ts, it) || undefined) === true;

const lineOf = (source: ts.SourceFile, node: ts.Node): number =>
  source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1;

/** The innermost node that begins at an offset. */
function nodeAt(ts: TypeScript6, source: ts.SourceFile, offset: number): ts.Node {
  let found: ts.Node = source;
  for (;;) {
    const inner = ts.forEachChild(found, (it) => (it.getStart(source) <= offset && offset < it.end ? it : undefined));
    if (!inner) return found;
    found = inner;
  }
}

function isVisible(
  checker: ts.TypeChecker,
  use: ts.Node,
  { name, meant, ts }: { name: ts.Identifier; meant: ts.Symbol; ts: TypeScript6 },
): boolean {
  const there = checker.getSymbolsInScope(use, ts.SymbolFlags.Value).find((it) => it.name === name.text);
  return there === meant;
}

/** The names of a value that are resolved by where they stand: not those of properties, nor those declared in it. */
function namesIn(ts: TypeScript6, value: ts.Node): ts.Identifier[] {
  const found: ts.Identifier[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node) && isFree(ts, node)) found.push(node);
    ts.forEachChild(node, visit);
  };
  visit(value);
  return found;
}

const isFree = (ts: TypeScript6, node: ts.Identifier): boolean =>
  !(ts.isPropertyAccessExpression(node.parent) && node.parent.name === node) &&
  !(ts.isPropertyAssignment(node.parent) && node.parent.name === node) &&
  !ts.isTypeNode(node.parent);

/** Whether a value does something, or is a new object, each time that its code runs. */
function isMadeAnew(ts: TypeScript6, node: ts.Node): boolean {
  const kinds = ts.SyntaxKind;
  const doesSomething = [
    ...[kinds.CallExpression, kinds.NewExpression, kinds.TaggedTemplateExpression, kinds.AwaitExpression],
    ...[kinds.YieldExpression, kinds.DeleteExpression, kinds.PostfixUnaryExpression],
    ...[kinds.ObjectLiteralExpression, kinds.ArrayLiteralExpression, kinds.RegularExpressionLiteral],
    ...[kinds.FunctionExpression, kinds.ArrowFunction, kinds.ClassExpression],
    ...[kinds.JsxElement, kinds.JsxSelfClosingElement, kinds.JsxFragment],
  ].includes(node.kind);
  if (doesSomething) return true;
  if (ts.isPrefixUnaryExpression(node) && [kinds.PlusPlusToken, kinds.MinusMinusToken].includes(node.operator))
    return true;
  if (ts.isBinaryExpression(node) && isAssignment(ts, node.operatorToken.kind)) return true;
  return ts.forEachChild(node, (it) => isMadeAnew(ts, it) || undefined) === true;
}

const isAssignment = (ts: TypeScript6, kind: ts.SyntaxKind): boolean =>
  ts.SyntaxKind.FirstAssignment <= kind && kind <= ts.SyntaxKind.LastAssignment;

/** Whether a loop, a function or a class lies between a use and the block of the declaration. */
function repeatedBetween(ts: TypeScript6, use: ts.Node, declaration: ts.VariableDeclaration): boolean {
  const home = ts.findAncestor(declaration, (it) => ts.isBlock(it) || ts.isSourceFile(it) || ts.isModuleBlock(it));
  for (let at: ts.Node | undefined = use; at && at !== home; at = at.parent)
    if (ts.isIterationStatement(at, false) || ts.isFunctionLike(at) || ts.isClassLike(at)) return true;
  return false;
}
