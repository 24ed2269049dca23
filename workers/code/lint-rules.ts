/** The rules of the built-in linter for JavaScript and TypeScript. */

/** `correctness`: code that is wrong or useless; `suspicious`: code that probably is. */
export const LINT_CONFIG = {
  plugins: ['typescript', 'unicorn', 'oxc'],
  categories: { correctness: 'error', suspicious: 'warn' },
};

/**
 * Rules of the linter that mend what they find without changing what code does. A report does not say so, and
 * `oxlint --rules`, which does, takes as long as linting. test/daemon/code-lint.test.ts compares them with what it prints.
 */
export const FIXABLE_RULES: ReadonlySet<string> = new Set([
  ...['no-compare-neg-zero', 'no-duplicate-type-constituents', 'no-extra-boolean-cast'],
  ...['no-extra-non-null-assertion', 'no-meaningless-void-operator'],
  ...['no-single-promise-in-promise-methods', 'no-unnecessary-await'],
  ...['no-unnecessary-boolean-literal-compare', 'no-unnecessary-template-expression'],
  ...['no-unnecessary-type-arguments', 'no-unnecessary-type-assertion', 'no-unsafe-negation'],
  ...['no-unused-labels', 'no-useless-empty-export', 'no-useless-escape', 'no-useless-fallback-in-spread'],
  ...['no-useless-rename', 'no-wrapper-object-types', 'prefer-as-const', 'prefer-namespace-keyword'],
  ...['prefer-set-size', 'prefer-string-starts-ends-with', 'preserve-caught-error'],
  ...['require-module-specifiers', 'use-isnan', 'valid-typeof'],
]);
