const words = (text) => text.split(/[^A-Za-z0-9]+/).filter(Boolean);
const capital = (word) => word[0].toUpperCase() + word.slice(1).toLowerCase();

const FORMS = {
  pascal: (text) => words(text).map(capital).join(''),
  camel: (text) => words(text).map((word, at) => (at === 0 ? word.toLowerCase() : capital(word))).join(''),
  kebab: (text) => words(text).map((word) => word.toLowerCase()).join('-'),
  upper: (text) => words(text).map((word) => word.toUpperCase()).join('_'),
};

/** The template with its names filled in, and which those were. */
export function fill(template, values) {
  const used = new Set();
  const text = template.replace(/\{\{\s*([a-z]\w*)\s*(?:\|\s*(\w+)\s*)?\}\}/gi, (_, name, form) => {
    if (!Object.hasOwn(values, name)) throw new Error(`the template wants a value for ${name}`);
    if (form !== undefined && !Object.hasOwn(FORMS, form)) throw new Error(`the template wants the form ${form}`);
    used.add(name);
    return form === undefined ? values[name] : FORMS[form](values[name]);
  });
  return { text, used: [...used] };
}
