/** Counts the lines of a file that hold a word. */
export async function run({ path, word }, { tools }) {
  const { matches } = await tools.file_grep({ path, pattern: word, literal: true });
  return { lines: matches.length };
}
