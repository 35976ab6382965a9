import { readFile, realpath } from 'node:fs/promises'
import { type Document, isMap, isSeq, parseDocument, stringify } from 'yaml'
import { type DirectoryContents, parseDirectory } from '../directory/file/directory-contents.ts'
import type { DirectoryTree } from '../directory/file/directory-schema.ts'
import { hashOf, shortHash } from './short-hash.ts'
import { writeAtomically } from './write-atomically.ts'

type ListName = Exclude<keyof DirectoryTree, 'last_ids'>

const header = ' The directory of kas: who is who. See doc/reference/directory.md.\n Tokens stand here as sha256 only.'

type OwnerList = 'agents' | 'users'
type EntryList = Exclude<ListName, 'ci_tokens' | 'environments'>

/** A token in the file. */
export type TokenTree = DirectoryTree[OwnerList][number]['tokens'][number]

export type OwnedToken =
  | {
      readonly kind: 'agent' | 'user'
      readonly list: OwnerList
      readonly ownerId: number
      /** name of the owner */
      readonly owner: string
      readonly token: TokenTree
    }
  /** `owner`: the job's number */
  | { readonly kind: 'job'; readonly owner: string; readonly token: Omit<TokenTree, 'name'> }

interface Edit {
  readonly where: string
  readonly value: unknown
}

/** A directory file that is edited: comments and order stay, and no content is written that kas would refuse. */
export class DirectoryDocument {
  readonly #file: string
  /** content as read; `undefined`: there is no file */
  #text: string | undefined
  readonly #document: Document
  readonly #added: Edit[] = []
  readonly #changed: Edit[] = []
  readonly #removed: string[] = []

  private constructor(file: string, text: string | undefined) {
    this.#file = file
    this.#text = text
    this.#document = parseDocument(text?.trim() ? text : '{}')
    if (!isMap(this.#document.contents)) throw new Error(`${file}: not a block of keys`)
    if (this.#document.contents.items.length === 0) this.#document.contents.flow = false
    if (text === undefined) this.#document.commentBefore = header
  }

  /** @throws KasError SETTINGS_INVALID if the file exists and kas would refuse it */
  static async load(file: string): Promise<DirectoryDocument> {
    const real = await realpath(file).catch(() => file) // a link stays a link
    const text = await readIfThere(real)
    if (text?.trim()) parseDirectory(file, text)
    return new DirectoryDocument(real, text)
  }

  /** Returns an empty directory, for a command that runs without one; it must not be changed. */
  static nowhere(): DirectoryDocument {
    return new DirectoryDocument('', '{}')
  }

  /** True if it belongs to a file. */
  get isNamed(): boolean {
    return this.#file !== ''
  }

  /** True if there are changes to save. */
  get isChanged(): boolean {
    return this.#added.length + this.#changed.length + this.#removed.length > 0
  }

  /** Contents of the present document, as kas would read them. */
  get contents(): DirectoryContents {
    return parseDirectory(this.#file, String(this.#document)).contents
  }

  /** Entries of a list in the file. */
  list<Name extends ListName>(name: Name): DirectoryTree[Name] {
    return (this.#document.toJS()?.[name] ?? []) as DirectoryTree[Name]
  }

  /**
   * Returns a number that no entry of the list has, and no removed one had, because a kubeconfig may still name that.
   */
  nextId(name: EntryList): number {
    const used = name === 'projects' ? 0 : (this.#lastIds[name] ?? 0)
    return Math.max(used, ...this.list(name).map((entry) => Number(entry.id))) + 1
  }

  add(name: ListName, value: unknown): void {
    this.#append([name], value, name)
  }

  addToken(name: OwnerList, id: number, token: TokenTree): void {
    this.#append([name, this.#indexOf(name, id), 'tokens'], token, `tokens of the ${owners[name]} with id ${id}`)
  }

  tokensOf(name: OwnerList, id: number): readonly TokenTree[] {
    return this.list(name)[this.#indexOf(name, id)]?.tokens ?? []
  }

  /** All tokens, in the order of the file. */
  tokens(): OwnedToken[] {
    const ofOwners = (['agents', 'users'] as const).flatMap((list) =>
      this.list(list).flatMap((entry) => {
        const owner = 'username' in entry ? entry.username : entry.name
        return (entry.tokens ?? []).map((token) => ({ kind: owners[list], list, ownerId: entry.id, owner, token }))
      }),
    )
    const ofJobs = this.list('ci_tokens').map((token) => ({ kind: 'job' as const, owner: String(token.job), token }))
    return [...ofOwners, ...ofJobs]
  }

  /** Sets name or end of an owner's token. */
  changeToken(name: OwnerList, id: number, token: TokenTree, change: { name?: string; expires?: string | null }): void {
    const path = [name, this.#indexOf(name, id), 'tokens', this.tokensOf(name, id).findIndex(isSameAs(token))]
    for (const [key, value] of Object.entries(change)) {
      if (value === null) this.#document.deleteIn([...path, key])
      else this.#document.setIn([...path, key], value)
    }
    const where = `the token ${shortHash(token)} of the ${owners[name]} with id ${id}`
    this.#changed.push({ where, value: change })
  }

  /**
   * Removes tokens that are `doomed`.
   *
   * @returns their number
   */
  dropTokens(name: OwnerList, id: number, doomed: (token: TokenTree) => boolean): number {
    const index = this.#indexOf(name, id)
    const found = [...this.tokensOf(name, id).entries()].filter(([, token]) => doomed(token))
    for (const [at] of found.toReversed()) this.#document.deleteIn([name, index, 'tokens', at])
    const where = `of tokens of the ${owners[name]} with id ${id}`
    this.#removed.push(...found.map(([, token]) => `${where}: ${shortHash(token)}`))
    return found.length
  }

  removeToken(owned: OwnedToken): void {
    const isIt = (token: object) => hashOf(token) === hashOf(owned.token)
    if (owned.kind === 'job') this.#dropFrom('ci_tokens', isIt)
    else this.dropTokens(owned.list, owned.ownerId, isIt)
  }

  /**
   * Removes an agent, with its deployments, or a user, with the tokens of the user's jobs.
   *
   * @returns a line for each kind of entries that were removed with it
   */
  removeOwner(name: OwnerList, id: number): string[] {
    const went =
      name === 'users'
        ? this.#dropFrom('ci_tokens', ({ user }) => user === id)
        : this.#dropDeployments(id) + this.#dropFrom('environments', ({ on }) => (on ?? []).length === 0)
    if (this.nextId(name) === id + 1) this.#useUp(name, id)
    this.#dropFrom(name, (entry) => entry.id === id)
    if (went === 0) return []
    return [name === 'users' ? `tokens of CI jobs: ${went}` : `entries of environments: ${went}`]
  }

  /** Instructions to make the changes by hand, for a file that this machine cannot write. */
  get instructions(): string {
    const added = this.#added.map(({ where, value }) => `# add to ${where}:\n${stringify([value])}`)
    const changed = this.#changed.map(({ where, value }) => `# change in ${where}:\n${stringify(value)}`)
    const removed = this.#removed.map((what) => `# take out ${what}\n`)
    return [...added, ...changed, ...removed].join('')
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
    this.#text = text
    for (const edits of [this.#added, this.#changed, this.#removed]) edits.length = 0
  }

  #indexOf(name: OwnerList, id: number): number {
    return this.list(name).findIndex((entry) => entry.id === id)
  }

  #dropFrom<Name extends ListName>(name: Name, doomed: (entry: DirectoryTree[Name][number]) => boolean): number {
    const entries = this.list(name) as DirectoryTree[Name][number][]
    const found = [...entries.entries()].filter(([, entry]) => doomed(entry))
    for (const [at] of found.toReversed()) this.#document.deleteIn([name, at])
    this.#removed.push(...found.map(([, entry]) => `of ${name}: ${titleOf(entry)}`))
    return found.length
  }

  get #lastIds(): Partial<DirectoryTree['last_ids']> {
    return this.#document.toJS()?.last_ids ?? {}
  }

  #useUp(name: OwnerList, id: number): void {
    this.#document.setIn(['last_ids', name], id)
    this.#changed.push({ where: 'last_ids', value: { [name]: id } })
  }

  #dropDeployments(agentId: number): number {
    let count = 0
    for (const [i, { on = [] }] of this.list('environments').entries()) {
      const found = [...on.entries()].filter(([, { agent }]) => agent === agentId)
      for (const [at] of found.toReversed()) this.#document.deleteIn(['environments', i, 'on', at])
      count += found.length
    }
    return count
  }

  #append(path: readonly (string | number)[], value: unknown, where: string): void {
    const list = this.#document.getIn(path, true)
    if (isSeq(list)) list.add(this.#document.createNode(value))
    else this.#document.setIn(path, this.#document.createNode([value]))
    this.#added.push({ where, value })
  }
}

const owners = { agents: 'agent', users: 'user' } as const

function isSameAs(token: TokenTree): (other: TokenTree) => boolean {
  return ({ sha256 }) => sha256 === token.sha256
}

function titleOf(entry: object): string {
  if ('name' in entry || 'username' in entry) return String('name' in entry ? entry.name : entry.username)
  return 'slug' in entry ? `${entry.slug}` : shortHash(entry)
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
