import { fill } from './lib/template.js';

/** Its whole authority is in `tools`: without `fs.write` in the manifest there would be no `tools.file_write`. */
export async function generate({ template, target, values }, { tools }) {
  const { content } = await tools.file_read({ path: template });
  const { text, used } = fill(content, values);
  await tools.file_write({ path: target, content: text, overwrite: false });
  return { path: target, lines: text.split('\n').length - 1, used };
}
