// Holds what a node answers to the types that the page reads it by: src/api.ts is the one
// description, read here as text, since types are gone when a program runs.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

type Type =
  | { kind: "any" }
  | { kind: "basic"; name: string }
  | { kind: "literal"; value: string }
  | { kind: "name"; name: string }
  | { kind: "list"; of: Type }
  | { kind: "map"; of: Type }
  | { kind: "object"; fields: Map<string, { type: Type; optional: boolean }> }
  | { kind: "union"; of: Type[] };

const TOKEN = /\s+|\/\/[^\n]*|\/\*[\s\S]*?\*\/|"([^"]*)"|[A-Za-z_]\w*|[{}[\]()<>|:;,?=]/y;

function tokens(text: string): string[] {
  const found: string[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const at = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (!match) throw new Error(`api.ts: cannot read ${text.slice(at, at + 30)}`);
    if (!/^(\s|\/[/*])/.test(match[0])) found.push(match[0]);
  }
  return found;
}

class Reader {
  #at = 0;
  readonly types = new Map<string, Type>();

  constructor(readonly words: string[]) {
    while (this.#at < words.length) {
      this.#take("export");
      const what = this.#next();
      const name = this.#next();
      if (what === "type") this.#take("=");
      this.types.set(name, this.#union());
      if (this.#peek() === ";") this.#next();
    }
  }

  #peek(): string {
    return this.words[this.#at] ?? "";
  }

  #next(): string {
    this.#at += 1;
    return this.words[this.#at - 1] ?? "";
  }

  #take(word: string): void {
    const got = this.#next();
    if (got !== word) throw new Error(`api.ts: expected ${word}, got ${got}`);
  }

  #union(): Type {
    if (this.#peek() === "|") this.#next();
    const of = [this.#one()];
    while (this.#peek() === "|") {
      this.#next();
      of.push(this.#one());
    }
    return of.length === 1 ? of[0] as Type : { kind: "union", of };
  }

  #one(): Type {
    let type = this.#plain();
    while (this.#peek() === "[") {
      this.#next();
      this.#take("]");
      type = { kind: "list", of: type };
    }
    return type;
  }

  #plain(): Type {
    const word = this.#next();
    if (word === "{") return this.#object();
    if (word.startsWith('"')) return { kind: "literal", value: word.slice(1, -1) };
    if (word === "(") {
      const inner = this.#union();
      this.#take(")");
      return inner;
    }
    if (word === "Record") {
      this.#take("<");
      this.#union();
      this.#take(",");
      const of = this.#union();
      this.#take(">");
      return { kind: "map", of };
    }
    if (word === "unknown") return { kind: "any" };
    if (["string", "number", "boolean", "null"].includes(word)) return { kind: "basic", name: word };
    return { kind: "name", name: word };
  }

  #object(): Type {
    const fields = new Map<string, { type: Type; optional: boolean }>();
    while (this.#peek() !== "}") {
      const name = this.#next();
      const optional = this.#peek() === "?";
      if (optional) this.#next();
      this.#take(":");
      fields.set(name, { type: this.#union(), optional });
      if (this.#peek() === ";") this.#next();
    }
    this.#next();
    return { kind: "object", fields };
  }
}

const API = fileURLToPath(new URL("../../src/api.ts", import.meta.url));
const { types } = new Reader(tokens(readFileSync(API, "utf8")));

function check(value: unknown, type: Type, place: string): string[] {
  const wrong = () => [`${place} is ${JSON.stringify(value)?.slice(0, 60)}`];
  switch (type.kind) {
    case "any": return [];
    case "basic": return (value === null ? "null" : typeof value) === type.name ? [] : wrong();
    case "literal": return value === type.value ? [] : wrong();
    case "name": {
      const known = types.get(type.name);
      return known ? check(value, known, place) : [`${place}: no type ${type.name}`];
    }
    case "list":
      if (!Array.isArray(value)) return wrong();
      return value.flatMap((one, index) => check(one, type.of, `${place}[${index}]`));
    case "union": {
      const each = type.of.map((one) => check(value, one, place));
      // Of several types the one that came nearest says what is wrong.
      return each.reduce((best, one) => (one.length < best.length ? one : best));
    }
    case "map":
    case "object": {
      if (typeof value !== "object" || value === null || Array.isArray(value)) return wrong();
      const found = new Map(Object.entries(value));
      if (type.kind === "map") {
        return [...found].flatMap(([name, one]) => check(one, type.of, `${place}.${name}`));
      }
      return [...type.fields].flatMap(([name, field]) => {
        if (!found.has(name)) return field.optional ? [] : [`${place}.${name} is missing`];
        return check(found.get(name), field.type, `${place}.${name}`);
      });
    }
  }
}

/** What in `value` is not as the type `name` of api.ts says: empty if all is. */
export function misfits(value: unknown, name: string): string[] {
  return check(value, { kind: "name", name }, name);
}
