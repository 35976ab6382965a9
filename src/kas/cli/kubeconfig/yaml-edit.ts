import { isDeepStrictEqual } from 'node:util'
import { type Document, isMap, isNode, isSeq, LineCounter } from 'yaml'
import { parseYamlDocument } from '../../../lib/yaml-document.ts'

type Path = readonly (string | number)[]
type Tree = Record<string, unknown>

/** As kubectl writes a kubeconfig; base64 data stays on one line. */
const layout = { lineWidth: 0, indentSeq: false, flowCollectionPadding: false } as const

/** A YAML or JSON file under edit. Values, their order and comments stay; their layout becomes that of kubectl. */
export class YamlEdit {
  readonly #file: string
  #text: string
  #tree: Tree

  /**
   * @param file - its name in errors
   * @throws Error with the line if the text is not one YAML document with a block of keys
   */
  constructor(file: string, text: string) {
    this.#file = file
    this.#text = text
    this.#tree = this.#read(text).tree
  }

  get text(): string {
    return this.#text
  }

  /** The file's content, as plain data. */
  get tree(): Readonly<Tree> {
    return this.#tree
  }

  /**
   * Sets the value of a key. Blocks and lists above it exist; the key may be new.
   *
   * @throws Error if an alias is in the way, or anything else would change
   */
  set(path: Path, value: unknown): void {
    const tree = structuredClone(this.#tree)
    const parent = path.slice(0, -1).reduce<unknown>((node, step) => (node as Tree)[step], tree)
    ;(parent as Tree)[path.at(-1) as string] = value
    this.#change(path, tree, (document) => document.setIn(path, value))
  }

  /** Adds an item to the list at a key of the root. The key may be new. @throws as `set` */
  append(key: string, item: unknown): void {
    const items = this.#tree[key] ?? []
    if (!Array.isArray(items)) throw this.#notPossible([key])
    this.#change([key], { ...this.#tree, [key]: [...items, item] }, (document) => {
      const known = document.get(key, true)
      if (isSeq(known) && known.items.length > 0) return known.add(document.createNode(item))
      const list = document.createNode([item])
      list.commentBefore = (isNode(known) && known.comment) || null
      document.set(key, list)
    })
  }

  /** @param expected - the content afterwards */
  #change(path: Path, expected: Tree, edit: (document: Document) => unknown): void {
    const text = this.#isJson ? `${JSON.stringify(expected, null, 2)}\n` : this.#edited(path, edit)
    if (!isDeepStrictEqual(this.#read(text).tree, expected)) throw this.#notPossible(path)
    this.#text = text
    this.#tree = expected
  }

  get #isJson(): boolean {
    try {
      return Object.keys(JSON.parse(this.#text)).length > 0
    } catch {
      return false
    }
  }

  #edited(path: Path, edit: (document: Document) => unknown): string {
    const { document } = this.#read(this.#text)
    document.contents ??= document.createNode({})
    if (isMap(document.contents) && document.contents.items.length === 0) document.contents.flow = false
    try {
      edit(document)
    } catch (cause) {
      throw this.#notPossible(path, cause)
    }
    const text = document.toString(layout)
    return this.#text.includes('\r\n') ? text.replaceAll(/\r?\n/g, '\r\n') : text
  }

  #read(text: string): { document: Document; tree: Tree } {
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
    return { document, tree: JSON.parse(JSON.stringify(tree)) as Tree }
  }

  #notPossible(path: Path, cause?: unknown): Error {
    const text = 'it is written in a way that cannot be changed in place (an alias, perhaps)'
    return new Error(`${this.#file}: ${path.join('.')}: ${text}`, { cause })
  }
}
