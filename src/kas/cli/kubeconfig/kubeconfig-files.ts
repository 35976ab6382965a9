import { delimiter } from 'node:path'
import type { Clock } from '../../../lib/clock.ts'
import { type Entry, type EntryKind, type Fields, KubeconfigFile } from './kubeconfig-file.ts'
import { lockFiles } from './lock.ts'

/** The kubeconfigs that kubectl would merge: the first entry of a name counts, and new entries go to one of them. */
export class KubeconfigFiles {
  readonly #files: readonly KubeconfigFile[]
  /** file for new entries */
  readonly main: KubeconfigFile
  readonly #unlock: () => Promise<void>

  private constructor(files: readonly KubeconfigFile[], main: KubeconfigFile, unlock: () => Promise<void>) {
    this.#files = files
    this.main = main
    this.#unlock = unlock
  }

  /**
   * Opens the files, and locks them until `close`.
   *
   * @param name - of one file; `-`: it is printed; undefined: those of KUBECONFIG; without any it is printed
   * @throws Error with the wrong file and its fault
   */
  static async open(name: string | undefined, env: { readonly KUBECONFIG?: string | undefined }, clock: Clock) {
    const ofEnvironment = [...new Set((env.KUBECONFIG ?? '').split(delimiter).filter(Boolean))]
    const names = name === undefined ? ofEnvironment : name === '-' ? [] : [name]
    if (names.length === 0) {
      const printed = KubeconfigFile.printed()
      return new KubeconfigFiles([printed], printed, async () => undefined)
    }
    const unlock = await lockFiles(names, clock)
    try {
      const files = await Promise.all(names.map((each) => KubeconfigFile.open(each)))
      return new KubeconfigFiles(files, mainOf(files), unlock)
    } catch (error) {
      await unlock()
      throw error
    }
  }

  get isPrinted(): boolean {
    return this.main.name === undefined
  }

  get currentContext(): string {
    return this.#files.find(({ currentContext }) => currentContext !== '')?.currentContext ?? ''
  }

  entries(kind: EntryKind): readonly Entry[] {
    return this.#files.flatMap((file) => file.entries(kind))
  }

  find(kind: EntryKind, name: string): Entry | undefined {
    return this.entries(kind).find((entry) => entry.name === name)
  }

  put(kind: EntryKind, name: string, fields: Fields): void {
    const holder = this.#files.find((file) => file.entries(kind).some((entry) => entry.name === name))
    const file = holder ?? this.main
    file.put(kind, name, fields)
  }

  /**
   * Writes changed files.
   *
   * @returns their names
   */
  async write(): Promise<string[]> {
    const changed = this.#files.filter((file) => file.isToWrite)
    for (const file of changed) await file.write()
    return changed.map(({ name }) => String(name))
  }

  /** A line for each file that other users could read before it is written. */
  get notes(): readonly string[] {
    return this.#files.flatMap((file) => (file.isToWrite ? (file.note ?? []) : []))
  }

  async close(): Promise<void> {
    await this.#unlock()
  }
}

/** Returns the file for new entries, as kubectl chooses it: the first that exists, else the last. */
function mainOf(files: readonly KubeconfigFile[]): KubeconfigFile {
  return files.find(({ isThere }) => isThere) ?? (files.at(-1) as KubeconfigFile)
}
