import { isDeepStrictEqual } from 'node:util'
import { isAlias, isCollection, isMap, isScalar, isSeq, LineCounter, type Node, type Pair, stringify } from 'yaml'
import { parseYamlDocument } from '../../../lib/yaml-document.ts'

type Path = readonly (string | number)[]
type Tree = Record<string, unknown>

/** A part of the text, and its replacement; offsets are of the text before the edit. */
interface Splice {
  readonly start: number
  readonly end: number
  readonly text: string
}

/**
 * A YAML file under edit. All bytes stay except those of set values. Each edit is made in the text, which is then
 * parsed again. The result must equal the content before, with the edit and no other change.
 */
export class YamlEdit {
  readonly #file: string
  #text: string
  #known: { readonly root: Node | null; readonly tree: Tree }

  /**
   * @param file - name for errors
   * @throws Error with the line if the text is not one YAML document with a block of keys
   */
  constructor(file: string, text: string) {
    this.#file = file
    this.#text = text
    this.#known = this.#read(text)
  }

  get text(): string {
    return this.#text
  }

  /** Present content. */
  get tree(): Readonly<Tree> {
    return this.#known.tree
  }

  /** Sets the value of a key. All parents must exist; the last key may be new. */
  set(path: Path, value: unknown): void {
    const { root } = this.#known
    const tree = structuredClone(this.#known.tree)
    const above = path.slice(0, -1)
    const parent = above.reduce<unknown>((node, step) => childOf(node, step), root)
    setIn(tree, path, value)
    this.#apply([this.#setting({ root, parent, above, key: path.at(-1) as string }, value)], tree)
  }

  /** Adds an item to the list under a key of the root, which may be new. */
  append(key: string, item: unknown): void {
    const { root, tree } = this.#known
    const items = tree[key] ?? []
    if (!Array.isArray(items)) throw this.#notHere([key])
    this.#apply(this.#appending(root, key, item), { ...tree, [key]: [...items, item] })
  }

  #setting(
    { root, parent, above, key }: { root: Node | null; parent: unknown; above: Path; key: string },
    value: unknown,
  ): Splice {
    const known = isMap(parent) ? pairOf(parent.items, key) : undefined
    if (known?.value) return this.#replacing(known.value as Node, value, [...above, key])
    if (parent === root && !isMap(root)) return this.#atEnd(blockOf({ [key]: value }))
    if (!isMap(parent) || known) throw this.#notHere(above)
    return this.#newPair(parent, key, value)
  }

  #appending(root: Node | null, key: string, item: unknown): Splice[] {
    if (!isMap(root)) return [this.#atEnd(blockOf({ [key]: [item] }))]
    const list = pairOf(root.items, key)?.value as Node | undefined
    if (!list) return [this.#newPair(root, key, [item])]
    const isEmpty = !isSeq(list) || list.items.length === 0
    if (root.flow || (isSeq(list) && list.flow && !isEmpty)) {
      return [isSeq(list) ? this.#inFlow(list, JSON.stringify(item)) : this.#replacing(list, [item], [key])]
    }
    if (isEmpty) return this.#inPlaceOfEmpty(list, item, this.#columnOfKeys(root))
    return [this.#afterLine(endOf(list), indented(blockOf([item]), this.#columnOfItems(list)))]
  }

  #read(text: string): { root: Node | null; tree: Tree } {
    const lines = new LineCounter()
    const { document, faults } = parseYamlDocument(text, lines)
    const [fault] = faults
    if (fault) throw new Error(`${this.#file}: line ${lines.linePos(fault.offset).line}: not YAML: ${fault.message}`)
    let tree: unknown
    try {
      tree = document.toJS() ?? {}
    } catch (cause) {
      throw new Error(`${this.#file}: not YAML: ${(cause as Error).message}`, { cause })
    }
    if (typeof tree !== 'object' || Array.isArray(tree)) throw new Error(`${this.#file}: not a block of keys`)
    return { root: document.contents, tree: JSON.parse(JSON.stringify(tree)) as Tree }
  }

  #apply(splices: readonly Splice[], expected: Tree): void {
    let text = this.#text
    for (const { start, end, text: piece } of splices.toSorted((one, other) => other.start - one.start)) {
      const lineEnds = this.#text.includes('\r\n') ? piece.replaceAll('\n', '\r\n') : piece
      text = text.slice(0, start) + lineEnds + text.slice(end)
    }
    const known = this.#readIfSound(text)
    if (!known || !isDeepStrictEqual(known.tree, expected)) throw this.#notHere([])
    this.#text = text
    this.#known = known
  }

  /** Undefined: it is no YAML any more. */
  #readIfSound(text: string): { root: Node | null; tree: Tree } | undefined {
    try {
      return this.#read(text)
    } catch {
      return undefined // the text before was valid, so this edit is at fault, and its caller reports it
    }
  }

  #notHere(path: Path): Error {
    const where = path.length > 0 ? `: ${path.join('.')}` : ''
    return new Error(
      `${this.#file}${where}: it is written in a way that cannot be changed in place (an alias, perhaps)`,
    )
  }

  /** @throws Error if the node is an alias, or a block of more than one line */
  #replacing(node: Node, value: unknown, path: Path): Splice {
    const [start, end] = rangeOf(node)
    if (isAlias(node) || (isCollection(node) && !(node.flow && node.items.length === 0))) throw this.#notHere(path)
    const isBlockText = isScalar(node) && /^BLOCK/.test(node.type ?? '')
    const space = start === end && !/\s/.test(this.#text[start - 1] ?? ' ') ? ' ' : ''
    const isQuoted = isScalar(node) && node.type === 'QUOTE_DOUBLE' // all are in JSON
    const text = isQuoted ? JSON.stringify(value) : flowOf(value)
    return { start, end, text: `${space}${text}${isBlockText ? '\n' : ''}` }
  }

  #newPair(map: Node & { items: Pair[]; flow?: boolean }, key: string, value: unknown): Splice {
    if (map.flow) return this.#inFlow(map, `${JSON.stringify(key)}: ${JSON.stringify(value)}`)
    return this.#afterLine(endOf(map), indented(blockOf({ [key]: value }), this.#columnOfKeys(map)))
  }

  /** Inserts before the closing bracket. */
  #inFlow(node: Node & { items: unknown[] }, json: string): Splice {
    const at = rangeOf(node)[1] - 1
    const before = this.#text.slice(0, at).trimEnd()
    const hasNone = node.items.length === 0
    const text = hasNone ? json : before.endsWith(',') ? ` ${json}` : `, ${json}`
    return { start: before.length, end: before.length, text }
  }

  /** Replaces `key: []`, `key: null` or `key:`. A comment behind it stays. */
  #inPlaceOfEmpty(node: Node, item: unknown, column: number): Splice[] {
    if (isAlias(node)) throw this.#notHere([])
    const [start, end] = rangeOf(node)
    const from = start < end && this.#text[start - 1] === ' ' ? start - 1 : start
    return [{ start: from, end, text: '' }, this.#afterLine(end, indented(blockOf([item]), column))]
  }

  #afterLine(offset: number, lines: string): Splice {
    const lineEnd = this.#text[offset - 1] === '\n' ? offset - 1 : this.#text.indexOf('\n', offset)
    if (lineEnd < 0) return this.#atEnd(lines)
    return { start: lineEnd + 1, end: lineEnd + 1, text: lines }
  }

  #atEnd(lines: string): Splice {
    const end = this.#text.length
    const isLineOpen = end > 0 && !this.#text.endsWith('\n')
    return { start: end, end, text: `${isLineOpen ? '\n' : ''}${lines}` }
  }

  #columnOfKeys({ items: [first] }: { items: Pair[] }): number {
    return first ? this.#columnOf(rangeOf(first.key as Node)[0]) : 0
  }

  #columnOf(offset: number): number {
    return offset - (this.#text.lastIndexOf('\n', offset - 1) + 1)
  }

  /** Column of the hyphen before the first item, which may be some lines above. */
  #columnOfItems({ items: [first] }: { items: unknown[] }): number {
    let lineEnd = rangeOf(first as Node)[0]
    for (;;) {
      const lineStart = this.#text.lastIndexOf('\n', lineEnd - 1) + 1
      const [, indent] = /^( *)-(?:\s|$)/.exec(this.#text.slice(lineStart, lineEnd)) ?? []
      if (indent !== undefined) return indent.length
      if (lineStart === 0) throw this.#notHere([])
      lineEnd = lineStart - 1
    }
  }
}

function rangeOf({ range }: Node): readonly [start: number, end: number] {
  if (!range) throw new Error('a node that was read has a range')
  return [range[0], range[1]]
}

/** End of the last value in a node, without comments. */
function endOf(node: Node): number {
  if (isCollection(node) && !node.flow) {
    const last = node.items.at(-1)
    if (isMap(node) && last) {
      const { key, value } = last as Pair<Node, Node | null>
      return endOf(value ?? key)
    }
    if (last) return endOf(last as Node)
  }
  return rangeOf(node)[1]
}

function childOf(node: unknown, step: string | number): unknown {
  if (isMap(node)) return pairOf(node.items, step)?.value
  return isSeq(node) && typeof step === 'number' ? node.items[step] : undefined
}

function pairOf(pairs: readonly Pair[], key: string | number): Pair | undefined {
  return pairs.find((pair) => isScalar(pair.key) && String(pair.key.value) === String(key))
}

function setIn(tree: Tree, path: Path, value: unknown): void {
  let parent: Record<string | number, unknown> = tree
  for (const step of path.slice(0, -1)) parent = (parent[step] ?? {}) as typeof parent
  parent[path.at(-1) as string] = value
}

/** Text on one line, valid also inside brackets. */
function flowOf(value: unknown): string {
  const isPlain = typeof value === 'string' && /^\w[\w.:/@+=-]*$/.test(value) && stringify(value).trimEnd() === value
  return isPlain ? value : JSON.stringify(value)
}

/** Text of a block, without folded lines: long values are base64. */
function blockOf(value: unknown): string {
  return stringify(value, { lineWidth: 0 })
}

function indented(lines: string, column: number): string {
  return lines.replaceAll(/^(?=.)/gm, ' '.repeat(column))
}
