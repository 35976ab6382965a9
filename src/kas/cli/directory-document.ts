import { readFile, realpath } from 'node:fs/promises'
import { type Document, isMap, isSeq, parseDocument, stringify } from 'yaml'
import { type DirectoryContents, parseDirectory } from '../directory/file/directory-contents.ts'
import type { DirectoryTree } from '../directory/file/directory-schema.ts'
import { writeAtomically } from './write-atomically.ts'

type ListName = keyof DirectoryTree

const header = ' The directory of kas: who is who. See doc/directory.md.\n Tokens stand here as sha256 only.'

interface Edit {
  readonly where: string
  readonly value: unknown
}

/** The directory file under edit: comments and order stay, and nothing is written that kas would refuse. */
export class DirectoryDocument {
  readonly #file: string
  /** as read; `undefined`: there was no file */
  readonly #text: string | undefined
  readonly #document: Document
  readonly #added: Edit[] = []
  readonly #removed: string[] = []

  private constructor(file: string, text: string | undefined) {
    this.#file = file
    this.#text = text
    this.#document = parseDocument(text?.trim() ? text : '{}')
    if (!isMap(this.#document.contents)) throw new Error(`${file}: not a block of keys`)
    if (this.#document.contents.items.length === 0) this.#document.contents.flow = false
    if (text === undefined) this.#document.commentBefore = header
  }

  /** @throws KasError SETTINGS_INVALID if the file is there and kas would refuse it */
  static async load(file: string): Promise<DirectoryDocument> {
    const real = await realpath(file).catch(() => file) // a link stays a link
    const text = await readIfThere(real)
    if (text?.trim()) parseDirectory(file, text)
    return new DirectoryDocument(real, text)
  }

  get isChanged(): boolean {
    return this.#added.length + this.#removed.length > 0
  }

  /** What kas would make of the document as it is now. */
  get contents(): DirectoryContents {
    return parseDirectory(this.#file, String(this.#document)).contents
  }

  /** The entries of a list as they stand. */
  list<Name extends ListName>(name: Name): DirectoryTree[Name] {
    return (this.#document.toJS()?.[name] ?? []) as DirectoryTree[Name]
  }

  /** A number that no entry of the list bears. */
  nextId(name: Exclude<ListName, 'ci_tokens' | 'environments'>): number {
    return Math.max(0, ...this.list(name).map((entry) => Number(entry.id))) + 1
  }

  add(name: ListName, value: unknown): void {
    this.#append([name], value, name)
  }

  addToken(name: 'agents' | 'users', id: number, token: unknown): void {
    const index = this.list(name).findIndex((entry) => entry.id === id)
    const owner = name === 'agents' ? 'agent' : 'user'
    this.#append([name, index, 'tokens'], token, `tokens of the ${owner} with id ${id}`)
  }

  /** Takes out the tokens whose hash begins so, and says how many that were. */
  removeTokens(hashPrefix: string): number {
    const matches = (entry: { sha256?: unknown }) => String(entry.sha256).toLowerCase().startsWith(hashPrefix)
    const paths: (string | number)[][] = []
    for (const name of ['agents', 'users'] as const) {
      for (const [i, entry] of this.list(name).entries()) {
        for (const [j, token] of (entry.tokens ?? []).entries()) if (matches(token)) paths.push([name, i, 'tokens', j])
      }
    }
    for (const [i, entry] of this.list('ci_tokens').entries()) if (matches(entry)) paths.push(['ci_tokens', i])
    for (const path of paths.toReversed()) this.#document.deleteIn(path)
    this.#removed.push(...paths.map((path) => path.join('.')))
    return paths.length
  }

  /** What to add or take out by hand, for a file that this machine cannot write. */
  get instructions(): string {
    const added = this.#added.map(({ where, value }) => `# add to ${where}:\n${stringify([value])}`)
    const removed = this.#removed.map((path) => `# take out ${path}\n`)
    return [...added, ...removed].join('')
  }

  /** @throws KasError SETTINGS_INVALID if kas would refuse the result; Error if the file changed meanwhile */
  async save(): Promise<void> {
    const text = String(this.#document)
    parseDirectory(this.#file, text)
    const check = async () => {
      if ((await readIfThere(this.#file)) !== this.#text)
        throw new Error(`${this.#file} changed meanwhile: nothing was written, try again`)
    }
    await writeAtomically(this.#file, text, { check })
  }

  #append(path: readonly (string | number)[], value: unknown, where: string): void {
    const list = this.#document.getIn(path, true)
    if (isSeq(list)) list.add(this.#document.createNode(value))
    else this.#document.setIn(path, this.#document.createNode([value]))
    this.#added.push({ where, value })
  }
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
