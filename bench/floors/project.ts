/** Makes a small JavaScript project under git, one of whose tests fails. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const MODULES = ['basket', 'customer', 'delivery', 'discount', 'invoice', 'order', 'parcel', 'payment', 'refund'];
const FUNCTIONS = ['find', 'list', 'create', 'update', 'remove', 'total'];

/** The fault and its fix. */
export const FAULT = {
  file: 'src/price.js',
  test: 'test/price.test.js',
  symbol: 'applyDiscount',
  wrong: '  return cents - (cents * percent) / 10;',
  right: '  return cents - Math.round((cents * percent) / 100);',
} as const;

const PRICE = `/** Prices are whole cents; no price is ever a fraction or below zero. */
import { RATES } from './rates.js';

/** The price without tax of one that has it. */
export function withoutTax(cents, country) {
  const rate = RATES.get(country);
  if (rate === undefined) throw new RangeError(\`there is no tax rate of \${country}\`);
  return Math.round(cents / (1 + rate));
}

/** The price after a discount in percent, rounded to whole cents. */
export function applyDiscount(cents, percent) {
  if (percent < 0 || percent > 100) throw new RangeError(\`a discount of \${percent} % is not possible\`);
${FAULT.wrong}
}

/** What stands on a label: 1234 is 12.34. */
export function label(cents) {
  const whole = Math.trunc(cents / 100);
  const rest = String(cents % 100).padStart(2, '0');
  return \`\${whole}.\${rest}\`;
}
`;

const TEST = `import assert from 'node:assert/strict';
import { test } from 'node:test';
import { applyDiscount, label, withoutTax } from '../src/price.js';

test('a label has two decimals', () => {
  assert.equal(label(1205), '12.05');
});

test('a price without tax is rounded to whole cents', () => {
  assert.equal(withoutTax(1190, 'DE'), 1000);
});

test('a discount is a part of a hundred', () => {
  assert.equal(applyDiscount(1999, 25), 1499);
  assert.equal(applyDiscount(1000, 0), 1000);
});
`;

const functionOf = (name: string, module: string, at: number) => `/** ${name} for a ${module}, by its id. */
export function ${name}${module[0]?.toUpperCase()}${module.slice(1)}(store, id, percent = ${at}) {
  const row = store.rows.find((it) => it.kind === '${module}' && it.id === id);
  if (!row) throw new Error(\`there is no ${module} \${id}\`);
  ${at === 5 ? 'return applyDiscount(row.cents, percent);' : `return { ...row, seen: row.seen + ${at} };`}
}
`;

/** Creates and commits the project in an empty folder. */
export function makeProject(root: string): void {
  for (const it of ['src', 'test']) mkdirSync(join(root, it), { recursive: true });
  const files: Record<string, string> = {
    'package.json': `${JSON.stringify({ name: 'shop', version: '1.0.0', type: 'module', scripts: { test: 'node --test' } }, null, 2)}\n`,
    'README.md': '# Shop\n\nPrices, baskets and orders of a small shop.\n',
    'src/rates.js': "export const RATES = new Map([\n  ['DE', 0.19],\n  ['FR', 0.2],\n  ['AT', 0.2],\n]);\n",
    [FAULT.file]: PRICE,
    [FAULT.test]: TEST,
  };
  for (const module of MODULES)
    files[`src/${module}.js`] =
      `import { applyDiscount } from './price.js';\n\n${FUNCTIONS.map((it, at) => functionOf(it, module, at)).join('\n')}`;
  for (const [path, text] of Object.entries(files)) writeFileSync(join(root, path), text);
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd: root });
  git('init', '-q');
  git('add', '-A');
  git('commit', '-qm', 'first');
}

/** Restores the fault. */
export const breakAgain = (root: string): void => writeFileSync(join(root, FAULT.file), PRICE);
