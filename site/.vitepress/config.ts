/** The documentation as a site with search: `npm run docs` builds docs/ into site/.vitepress/dist. */
import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { defineConfig } from 'vitepress';

const repository = 'https://github.com/ringfence/ringfence';

/** The groups and pages that docs/README.md lists, so that the sidebar and the index can't differ. */
function toSidebar(index: string) {
  return index
    .split(/^## /m)
    .slice(1)
    .map((section) => ({
      text: section.slice(0, section.indexOf('\n')),
      items: [...section.matchAll(/^- \[([^\]]+)\]\((\S+)\.md\)/gm)].map(([, text = '', path = '']) => ({
        text,
        link: `/${path.replace(/README$/, '')}`,
      })),
    }));
}

/** A link of a page as the site has it: files that are no pages are on GitHub. */
function toSite(href: string, page: string): string {
  if (/^([a-z]+:|#|\/)/i.test(href)) return href;
  const [path = '', anchor] = href.split('#');
  const target = posix.join('docs', posix.dirname(page), path);
  if (target.startsWith('docs/') && path.endsWith('.md')) return href;
  return `${repository}/blob/main/${target}${anchor === undefined ? '' : `#${anchor}`}`;
}

/** The reference has tables with long cells, for which the theme's column is too narrow. */
const css = `
.VPDoc.has-aside .content-container.content-container { max-width: 1000px; }
.VPDoc .vp-doc table { font-size: 14px; }
.VPDoc .vp-doc :is(td, th) { padding: 6px 10px; vertical-align: top; }`;

export default defineConfig({
  title: 'Ringfence',
  description: 'Runs the tool calls of AI agents on your machine, in processes that the kernel confines.',
  head: [['style', {}, css]],
  srcDir: '../docs',
  rewrites: { 'README.md': 'index.md', 'decisions/README.md': 'decisions/index.md' },
  themeConfig: {
    search: { provider: 'local' },
    sidebar: toSidebar(readFileSync(new URL('../../docs/README.md', import.meta.url), 'utf8')),
    outline: [2, 3],
    socialLinks: [{ icon: 'github', link: repository }],
  },
  markdown: {
    html: false, // Pages are plain Markdown, in which `<name>` is text.
    languages: [{ name: 'hex', scopeName: 'text.hex', patterns: [], repository: {} }],
    config(markdown) {
      markdown.core.ruler.before('normalize', 'no-comments', (state) => {
        state.src = state.src.replaceAll(/^<!--.*-->\n/gm, '');
      });
      markdown.core.ruler.push('links-of-the-repository', ({ tokens, env }) => {
        for (const token of tokens.flatMap(({ children }) => children ?? []))
          if (token.type === 'link_open') token.attrSet('href', toSite(token.attrGet('href') ?? '', env.relativePath));
      });
    },
  },
});
