import { constants } from 'node:fs'
import { access, readFile, readlink, realpath, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { writeAtomically } from '../write-atomically.ts'
import { YamlEdit } from './yaml-edit.ts'

export type EntryKind = 'cluster' | 'user' | 'context'

export type Fields = Readonly<Record<string, unknown>>

/** A cluster, user or context of a kubeconfig. */
export interface Entry {
  readonly name: string
  readonly value: Fields
}

/** More than any kubeconfig of people: it is read again for each change. */
const maxBytes = 8 * 1024 * 1024

const head = { apiVersion: 'v1', kind: 'Config' } as const
const newText = 'apiVersion: v1\nkind: Config\n'

/** One kubeconfig under edit, or one that is to be printed; what is not set stays as it is, byte by byte. */
export class KubeconfigFile {
  /** as it was named; undefined: it is printed */
  readonly name: string | undefined
  /** what `name` leads to */
  readonly real: string
  /** as read; undefined: there is none yet */
  readonly #before: string | undefined
  readonly #edit: YamlEdit

  private constructor(name: string | undefined, real: string, before: string | undefined) {
    this.name = name
    this.real = real
    this.#before = before
    this.#edit = new YamlEdit(name ?? 'kubeconfig', before?.trim() ? before : newText)
  }

  static printed(): KubeconfigFile {
    return new KubeconfigFile(undefined, '', undefined)
  }

  /** @throws Error if it is none, or may not be written */
  static async open(name: string): Promise<KubeconfigFile> {
    const real = await realOf(name)
    const before = await textOf(real)
    const file = new KubeconfigFile(name, real, before)
    for (const kind of ['cluster', 'user', 'context'] as const) file.entries(kind)
    for (const [key, value] of file.#missingHead()) {
      if (value !== undefined) throw new Error(`${name}: ${key}: found ${value}: this is no kubeconfig`)
    }
    return file
  }

  get text(): string {
    return this.#edit.text
  }

  get isChanged(): boolean {
    return this.text !== (this.#before ?? newText)
  }

  get currentContext(): string {
    const { 'current-context': current } = this.#edit.tree
    return typeof current === 'string' ? current : ''
  }

  set currentContext(name: string) {
    this.#edit.set(['current-context'], name)
  }

  /** @throws Error that says what is wrong */
  entries(kind: EntryKind): readonly Entry[] {
    const list = this.#edit.tree[`${kind}s`] ?? []
    const wrong = (what: string) => new Error(`${this.name}: ${kind}s: ${what}: this is no kubeconfig`)
    if (!Array.isArray(list)) throw wrong('found no list')
    return list.map((item: Fields | null) => {
      if (typeof item?.name !== 'string') throw wrong('found an item without a name')
      const value = item[kind] ?? {}
      if (typeof value !== 'object') throw wrong(`found no block of keys as ${kind} of ${item.name}`)
      return { name: item.name, value: value as Fields }
    })
  }

  /** Adds an entry, or sets these keys of the one that is there. */
  put(kind: EntryKind, name: string, fields: Fields): void {
    for (const [key] of this.#missingHead()) this.#edit.set([key], head[key])
    const known = this.entries(kind)
    const at = known.findIndex((entry) => entry.name === name)
    if (at < 0) this.#edit.append(`${kind}s`, { name, [kind]: fields })
    else this.#set([`${kind}s`, at, kind], known[at]?.value ?? {}, fields)
  }

  #set(path: readonly (string | number)[], before: Fields, fields: Fields): void {
    for (const [key, value] of Object.entries(fields)) {
      if (before[key] !== value) this.#edit.set([...path, key], value)
    }
  }

  /** @throws Error if it was changed meanwhile: nothing was written */
  async write(): Promise<void> {
    const check = async () => {
      if ((await textOf(this.real)) === this.#before) return
      throw new Error(`${this.name} changed meanwhile: it was not written, try again`)
    }
    await writeAtomically(this.real, this.text, { check })
  }

  /** @returns who else may read it, for whom a token is none of their business; undefined: nobody */
  async readers(): Promise<string | undefined> {
    const { mode, uid } = await stat(this.real)
    if (uid !== (process.geteuid?.() ?? uid)) return `belongs to uid ${uid}, who may read the token in it`
    if ((mode & 0o077) === 0) return undefined
    return `has mode ${(mode & 0o777).toString(8).padStart(4, '0')}, and a token in it: chmod 600 ${this.name}`
  }

  /** What is not there of what each kubeconfig begins with, and what is there instead. */
  #missingHead(): [key: keyof typeof head, found: unknown][] {
    const { tree } = this.#edit
    return (['apiVersion', 'kind'] as const).flatMap((key) => (tree[key] === head[key] ? [] : [[key, tree[key]]]))
  }
}

/** Links are followed, also one that leads to nothing yet. */
async function realOf(name: string): Promise<string> {
  try {
    return await realpath(name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    const target = await readlink(name).catch(() => undefined)
    return target === undefined ? resolve(name) : await realOf(resolve(dirname(name), target))
  }
}

/** @throws Error if it may not be read and written */
async function textOf(real: string): Promise<string | undefined> {
  try {
    const { mode, uid, size } = await stat(real)
    await access(real, constants.R_OK | constants.W_OK)
    if ((mode & 0o222) === 0) throw new Error(`${real} is read-only (mode ${(mode & 0o777).toString(8)})`)
    const own = process.geteuid?.() ?? uid
    if (uid !== own && own !== 0) throw new Error(`${real} belongs to another user (uid ${uid}): no token goes there`)
    if (size > maxBytes) throw new Error(`${real} has more than ${maxBytes} bytes`)
    const bytes = await readFile(real)
    const text = bytes.toString('utf8')
    if (!Buffer.from(text).equals(bytes)) throw new Error(`${real} is not UTF-8`)
    return text
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
