/** Texts that control a terminal, hide what a name is, or make one line look like two. */
const hostileTexts: Readonly<Record<string, string>> = {
  colour: 'a\u001b[31mEVIL\u001b[0m',
  screen: 'a\u001b[2J\u001b[HEVIL',
  clipboard: 'a\u001b]52;c;ZXZpbA==\u0007EVIL',
  link: 'a\u001b]8;;https://evil.example\u001b\\EVIL\u001b]8;;\u001b\\',
  bell: 'a\u0007EVIL',
  nul: 'a\0EVIL',
  c1: 'a\u009b2J\u0085\u009d0;EVIL\u009c',
  bidi: 'a\u202eLIVE\u202c\u2066EVIL\u2069\u200f\u061c',
  carriage: 'a\rEVIL',
  lines: 'a\nEVIL\u2028EVIL\u2029EVIL\r\nEVIL',
  backspace: 'a\b\u007fEVIL',
  tab: 'a\tEVIL\vEVIL\fEVIL',
  unseen: 'a\u200bEVIL\ufeff\u00ad\u2060\u{e0041}',
  halves: 'a\ud83dEVIL\ude00',
  long: `a${'EVIL'.repeat(400)}`,
  flag: '--kubeconfig=/EVIL',
  yaml: '! { EVIL: *a, &b c: "d" } # - |',
  shell: "a$(EVIL)`EVIL`'; EVIL",
}

const readAs: ReadonlySet<string> = new Set(['long', 'flag', 'yaml', 'shell'])

/** All texts that no output may contain, in one name. */
export const hostileText = Object.entries(hostileTexts)
  .filter(([name]) => !readAs.has(name))
  .map(([, text]) => text)
  .join('')

/** Cases that have to be alone, and all others in one. */
export const hostileNames: Readonly<Record<string, string>> = {
  all: hostileText,
  ...Object.fromEntries(Object.entries(hostileTexts).filter(([name]) => readAs.has(name))),
}

/** Control sequences that a command itself writes to a terminal. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what it is about
const drawn = /\u001b\[(?:\d{1,2}m|[HJK])/g
const raw =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what it is about
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[\u{e0000}-\u{e007f}]|\p{Cs}/gu

/**
 * @returns control characters, hidden characters and halves of characters in a text, escaped; with `isTerminal` without
 * the command's own colours
 */
export function steering(text: string, isTerminal = false): string[] {
  const own = isTerminal ? text.replaceAll(drawn, '') : text
  const foreign = ['\u001b[31mEVIL', '\u001b[HEVIL']
    .filter((each) => text.includes(each))
    .map((each) => JSON.stringify(each))
  return [...foreign, ...[...own.matchAll(raw)].map(([sign]) => JSON.stringify(sign))]
}

/**
 * Yields a copy of an answer for each of its strings, with that string replaced; ids by which parts refer to one
 * another stay.
 */
export function* mutated(answer: unknown, text: string, keep: ReadonlySet<string>): Generator<[path: string, unknown]> {
  for (const path of stringsIn(answer, [])) {
    if (path.some((step) => keep.has(String(step)))) continue
    const copy = structuredClone(answer)
    const parent = path.slice(0, -1).reduce<unknown>((value, step) => (value as Record<string, unknown>)[step], copy)
    ;(parent as Record<string, unknown>)[String(path.at(-1))] = text
    yield [path.join('.'), copy]
  }
}

type Path = readonly (string | number)[]

function* stringsIn(value: unknown, path: Path): Generator<Path> {
  if (typeof value === 'string') yield path
  else if (Array.isArray(value)) for (const [i, one] of value.entries()) yield* stringsIn(one, [...path, i])
  else if (typeof value === 'object' && value !== null)
    for (const [key, one] of Object.entries(value)) yield* stringsIn(one, [...path, key])
}
