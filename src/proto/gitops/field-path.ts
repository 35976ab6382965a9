/**
 * Paths of fields in a configuration (`drift.ignore`), in one of two forms:
 *
 * - as the API server writes conflicts: `.spec.template.spec.containers[name="app"].resources`. `[*]` is any item of a
 *   list. Keys of maps keep their dots: `.metadata.annotations.tool.example/x`
 * - JSON Pointers (RFC 6901): `/spec/replicas`, `/spec/template/spec/containers/0/image`
 */

/** Fields that identify an item of a list: `{ name: 'app' }`. */
export type ItemKey = Readonly<Record<string, string | number | boolean | null>>

/** One item of a list: by its key fields, by its value in a set, or by its index. */
export type ItemPart =
  | { readonly kind: 'key'; readonly key: ItemKey }
  | { readonly kind: 'value'; readonly value: ItemKey[string] }
  | { readonly kind: 'index'; readonly index: number }

/**
 * Part of a path.
 *
 * - `name`: text between dots; a key of a map that contains dots takes several
 * - `segment`: part of a JSON Pointer: a whole name, or the index of an item
 * - `any`: every item of a list
 */
export type PathPart =
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'segment'; readonly name: string }
  | { readonly kind: 'any' }
  | ItemPart

export interface FieldPath {
  /** as it is configured */
  readonly text: string
  /** empty: the whole object */
  readonly parts: readonly PathPart[]
}

/** Text that is no path. */
export interface PathProblem {
  /** allowed in place of the text */
  readonly problem: string
}

const beginning = 'a path that begins with "." or "/", such as ".spec.replicas" or "/spec/replicas"'
const plainKey = 'keys as they are, without quotes, spaces and backslashes: .metadata.annotations.tool.example/x'
const oneItem = 'in brackets one item of a list: [name="app"], [port=80,protocol="TCP"], [*], [0] or [="value"]'

/** Parses a path in either form. The texts ``, `.` and `/` name the whole object. */
export function parseFieldPath(text: string): FieldPath | PathProblem {
  if (['', '.', '/'].includes(text)) return { text, parts: [] }
  const parts = text.startsWith('/') ? pointerParts(text) : dottedParts(text)
  return 'problem' in parts ? parts : { text, parts }
}

function dottedParts(text: string): readonly PathPart[] | PathProblem {
  if (!text.startsWith('.')) return { problem: beginning }
  const parts: PathPart[] = []
  for (let at = 0; at < text.length; ) {
    if (text[at] === '[') {
      const item = readItem(text, at)
      if ('problem' in item) return item
      parts.push(item.part)
      at = item.end
    } else if (text[at] === '.') {
      const [name = ''] = /^[^.[]*/.exec(text.slice(at + 1)) ?? []
      const problem = nameProblem(name)
      if (problem !== undefined) return { problem }
      parts.push({ kind: 'name', name })
      at += 1 + name.length
    } else return { problem: '"." or "[" after "]"' }
  }
  return parts
}

function nameProblem(name: string): string | undefined {
  if (name === '') return 'the name of a field after each "."'
  if (name === '*') return '"*" for the items of a list alone: [*]'
  return /["'\\\]\s|(]/.test(name) ? plainKey : undefined
}

/**
 * Reads the item of a list that begins with `[` at a place of a text: `[name="app"]`, `[=80]`, `[0]`, `[*]`.
 *
 * @returns `end`: the place behind its `]`
 */
export function readItem(
  text: string,
  at: number,
): { readonly part: ItemPart | { readonly kind: 'any' }; readonly end: number } | PathProblem {
  if (text.startsWith('[*]', at)) return { part: { kind: 'any' }, end: at + 3 }
  const index = /^\[(0|[1-9]\d{0,8})\]/.exec(text.slice(at, at + 12))
  if (index) return { part: { kind: 'index', index: Number(index[1]) }, end: at + index[0].length }
  if (text[at + 1] === '=') {
    const read = readScalar(text, at + 2)
    if (!read || text[read.end] !== ']') return { problem: oneItem }
    return { part: { kind: 'value', value: read.value }, end: read.end + 1 }
  }
  return readKey(text, at)
}

function readKey(text: string, at: number): ReturnType<typeof readItem> {
  if (/["']/.test(text[at + 1] ?? '')) return { problem: plainKey }
  const key: [string, ItemKey[string]][] = []
  for (let end = at; text[end] === '[' || text[end] === ','; ) {
    const equals = text.indexOf('=', end)
    const name = text.slice(end + 1, equals)
    const read = equals < 0 || !/^[A-Za-z0-9_.-]+$/.test(name) ? undefined : readScalar(text, equals + 1)
    if (!read) break
    key.push([name, read.value])
    end = read.end
    if (text[end] === ']') return { part: { kind: 'key', key: Object.fromEntries(key) }, end: end + 1 }
  }
  return { problem: oneItem }
}

/** Reads a JSON text, number, `true`, `false` or `null`. @returns undefined: there is none */
function readScalar(text: string, at: number): { readonly value: ItemKey[string]; readonly end: number } | undefined {
  const scalar = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?=[\],])|(?:true|false|null)(?=[\],])/y
  scalar.lastIndex = at
  const [found] = scalar.exec(text) ?? []
  if (found === undefined) return undefined
  try {
    return { value: JSON.parse(found), end: at + found.length }
  } catch {
    return undefined // an escape that JSON does not have
  }
}

function pointerParts(text: string): readonly PathPart[] | PathProblem {
  const parts: PathPart[] = []
  for (const escaped of text.slice(1).split('/')) {
    if (escaped === '') return { problem: 'the name of a field after each "/"' }
    if (/~(?![01])/.test(escaped)) return { problem: 'a JSON Pointer with "~" as "~0", and with "/" of a name as "~1"' }
    if (escaped === '*') {
      return { problem: 'a JSON Pointer without "*": .spec.template.spec.containers[*].image names each item' }
    }
    parts.push({ kind: 'segment', name: escaped.replaceAll('~1', '/').replaceAll('~0', '~') })
  }
  return parts
}

/** Writes the first parts of a path, as they are configured. @param count - of these parts */
export function pathText({ parts }: FieldPath, count = parts.length): string {
  return parts.slice(0, count).map(partText).join('')
}

function partText(part: PathPart): string {
  switch (part.kind) {
    case 'name':
      return `.${part.name}`
    case 'segment':
      return `/${part.name.replaceAll('~', '~0').replaceAll('/', '~1')}`
    case 'any':
      return '[*]'
    case 'index':
      return `[${part.index}]`
    case 'value':
      return `[=${JSON.stringify(part.value)}]`
    case 'key': {
      const fields = Object.entries(part.key).map(([name, value]) => `${name}=${JSON.stringify(value)}`)
      return `[${fields.join()}]`
    }
  }
}
