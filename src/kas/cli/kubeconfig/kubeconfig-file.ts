import { ownPath, readOwnFile } from '../own-file.ts'
import { writeAtomically } from '../write-atomically.ts'
import { YamlEdit } from './yaml-edit.ts'

export type EntryKind = 'cluster' | 'user' | 'context'

export type Fields = Readonly<Record<string, unknown>>

/** A cluster, user or context of a kubeconfig. */
export interface Entry {
  readonly name: string
  readonly value: Fields
}

/** Bound above any kubeconfig of a person: it is parsed again for each change. */
const maxBytes = 8 * 1024 * 1024

const head = { apiVersion: 'v1', kind: 'Config' } as const
const newText = 'apiVersion: v1\nkind: Config\n'

/** A file as it was read. */
interface Before {
  readonly text: string
  readonly mode: number
}

/** One kubeconfig that is edited, or one that is printed. All bytes stay except those of set values. */
export class KubeconfigFile {
  /** name as given; undefined: it is printed */
  readonly name: string | undefined
  /** path to which `name` leads */
  readonly real: string
  /** undefined: there was no file */
  readonly #before: Before | undefined
  readonly #edit: YamlEdit
  #isPut = false

  private constructor(name: string | undefined, real: string, before: Before | undefined) {
    this.name = name
    this.real = real
    this.#before = before
    this.#edit = new YamlEdit(name ?? 'kubeconfig', before?.text.trim() ? before.text : newText)
  }

  static printed(): KubeconfigFile {
    return new KubeconfigFile(undefined, '', undefined)
  }

  /** @throws Error if it is no kubeconfig, belongs to another user, or may not be written */
  static async open(name: string): Promise<KubeconfigFile> {
    const real = await ownPath(name)
    const before = await readBefore(real)
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

  /** True if it has changed, or if it gets a token and other users could read it, which the write prevents. */
  get isToWrite(): boolean {
    return this.text !== (this.#before?.text ?? newText) || (this.#isPut && this.wasOpen)
  }

  get isThere(): boolean {
    return this.#before !== undefined
  }

  /** True if other users could read it, or write to it. */
  get wasOpen(): boolean {
    return ((this.#before?.mode ?? 0) & 0o077) !== 0
  }

  get currentContext(): string {
    const { 'current-context': current } = this.#edit.tree
    return typeof current === 'string' ? current : ''
  }

  set currentContext(name: string) {
    this.#edit.set(['current-context'], name)
  }

  /** @throws Error with the fault */
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

  /** Adds an entry, or sets these keys of an existing one. */
  put(kind: EntryKind, name: string, fields: Fields): void {
    this.#isPut = true
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

  /**
   * Writes the file, with a mode for the caller only (0600).
   *
   * @throws Error if it was changed meanwhile: then nothing was written
   */
  async write(): Promise<void> {
    const check = async () => {
      if ((await readBefore(this.real))?.text === this.#before?.text) return
      throw new Error(`${this.name} changed meanwhile: it was not written, try again`)
    }
    await writeAtomically(this.real, this.text, { check, isSecret: true })
  }

  /** Note for a file that other users could read until it is written; undefined: they could not. */
  get note(): string | undefined {
    if (!this.wasOpen) return undefined
    return `note: ${this.name} had mode ${modeText(this.#before?.mode)}, and has a token in it: its mode is 0600 now`
  }

  /** Keys with which each kubeconfig begins and that differ here, with their values. */
  #missingHead(): [key: keyof typeof head, found: unknown][] {
    const { tree } = this.#edit
    return (['apiVersion', 'kind'] as const).flatMap((key) => (tree[key] === head[key] ? [] : [[key, tree[key]]]))
  }
}

const modeText = (mode = 0) => mode.toString(8).padStart(4, '0')

/** @throws Error if it belongs to another user, may not be written, or is no text */
async function readBefore(real: string): Promise<Before | undefined> {
  const found = await readOwnFile(real, maxBytes)
  if (!found) return undefined
  const { bytes, mode } = found
  if ((mode & 0o200) === 0) throw new Error(`${real} is read-only (mode ${modeText(mode)})`)
  const text = bytes.toString('utf8')
  if (!Buffer.from(text).equals(bytes)) throw new Error(`${real} is not UTF-8`)
  return { text, mode }
}
